"""Random lives of a model: what programs do to models between two calls is seen by the next call, as in eager, bit for bit.

FRAMEJIT_RANDOM_LIVES is how many lives are led, 60 if it is not set.
"""

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import framejit
from support.examples import random_examples
from support.module_lives import CHANGES, WIDTH, World

INPUTS = [
    lambda: torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH),
    lambda: torch.linspace(-1, 2, 3 * WIDTH).reshape(3, WIDTH).requires_grad_(),
    lambda: torch.linspace(-2, 1, 2 * WIDTH).reshape(WIDTH, 2).t(),
    lambda: torch.linspace(-2, 1, 6 * WIDTH).reshape(6, WIDTH)[::2],
    lambda: torch.ones(5, WIDTH, dtype=torch.float64),
    lambda: torch.ones(3, WIDTH, dtype=torch.bfloat16),
    lambda: torch.ones(3, WIDTH + 1),
]
OF_ANY_TYPE = 4  # the first ones come in the model's type
MODES = [
    contextlib.nullcontext,
    contextlib.nullcontext,
    torch.no_grad,
    torch.inference_mode,
]
few = st.integers(0, 11)
often = st.sampled_from([0] * 12 + [1] * 6 + [2, 2, 3, 3, 4, 5, 6])
events = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), few), max_size=2),
        often,
        st.sampled_from([0, 0, 0, 1, 2, 3]),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=8,
)


def account(value):
    """What is compared of a value: tensors to the bit, with their layout."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    data = value.detach()
    bits = data.contiguous().view(-1).view(torch.uint8).tolist() if data.numel() else []
    return str(data.dtype), tuple(data.shape), data.stride(), value.requires_grad, type(value).__name__, bits


def state_of(world):
    """{name: account} of all that a call or a backward may change."""
    found = {}
    for name, module in world.net.named_modules():
        for key, value in [*module._parameters.items(), *module._buffers.items()]:
            found[f"{name}.{key}"] = account(value)
            found[f"{name}.{key}.grad"] = account(value.grad) if value is not None and value.is_leaf else None
        for key in ("calls", "last", "scale"):
            if key in module.__dict__:
                found[f"{name}.{key}"] = account(module.__dict__[key])
    return found


def attempt(run):
    try:
        return run()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]


def call(world, which, mode):
    x = INPUTS[which]()
    if which < OF_ANY_TYPE:
        x = x.to(next(world.net.parameters()).dtype)
    with MODES[mode]():
        result = world.run(x)
    if result.requires_grad:
        result.float().pow(2).sum().backward()
    return account(result), account(x.grad)


def live(world, events):
    """What is seen after each call."""
    seen = []
    try:
        for changes, which, mode, times in events:
            for name, n in changes:
                seen.append((name, attempt(lambda: CHANGES[name](world.net, world, n) and None)))
            for _ in range(times):
                seen.append(attempt(lambda: call(world, which, mode)))
                seen.append((list(world.heard), state_of(world)))
                world.heard.clear()
    finally:
        CHANGES["remove hooks"](world.net, world, 0)
    return seen


@pytest.mark.runs_once("the hooks of a model hear of both runs")
@random_examples("FRAMEJIT_RANDOM_LIVES", 60)
@given(events, st.booleans())
def test_random_lives(events, by_argument):
    expected = live(World(lambda fn: fn, by_argument), events)
    framejit.reset()
    before = framejit.stats()["captures"]
    got = live(World(framejit.to_static, by_argument), events)
    for index, (a, b) in enumerate(zip(expected, got)):
        assert a == b, f"at {index}"
    assert framejit.stats()["captures"] > before or all(
        isinstance(seen[0], str) for seen in expected[len(events[0][0]) :: 2]
    )
