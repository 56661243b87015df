"""Random networks with frozen parameters.

FRAMEJIT_GENERATED_GRAPHS=2000 runs more of them.
"""

import os

import hypothesis
import torch

import framejit
from framejit import _C
from support.networks import OUTPUTS, STEPS, assert_does_as, made_network

EXAMPLES = int(os.environ.get("FRAMEJIT_GENERATED_GRAPHS", "40"))

packed = []


@hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@hypothesis.given(STEPS, OUTPUTS)
def check(steps, outputs):
    torch.manual_seed(0)
    module = made_network(steps, outputs)
    # As in eager, though a step may leave the function with no tensor of its own.
    call = framejit.to_static(lambda x: module(x), backend="native", freeze=True)
    before = _C.frozen_stats()["packed"]
    assert_does_as(call, module)
    packed.append(_C.frozen_stats()["packed"] - before)


def test_random_networks():
    packed.clear()
    check()
    assert len(packed) >= EXAMPLES // 2
    assert sum(count > 0 for count in packed) > len(packed) * 3 // 4
