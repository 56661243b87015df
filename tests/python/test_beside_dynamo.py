"""In a process where torch.compile has run: what Dynamo leaves changed in torch does not break captures."""

import os
import subprocess
import sys

import pytest

PREPARED = """
import torch, framejit
from torch import nn
from torch._dynamo import mutation_guard

mutation_guard.install_generation_tagging_init()  # what the first torch.compile of a process does


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers[:3]:  # makes a ModuleList
            x = layer(x)
        return x


model, x = Model(), torch.randn(2, 4)
"""
ONE_GRAPH = """
report = framejit.explain(model, x)
assert torch.equal(report.result, model(x))
assert len(report.graphs) == 1 and not report.breaks, str(report)
"""
# The local that the frame lets go of is a module that Dynamo watches.
ACROSS_A_BREAK = """
def f(x):
    layer = model.layers[0]
    framejit.graph_break()
    y = layer(x)
    layer = None
    return y + 1


report = framejit.explain(f, x)
assert torch.equal(report.result, f(x))
assert len(report.breaks) == 1, str(report)
"""


@pytest.mark.slow
def test_modules_made_after_dynamo_has_run():
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    environment = dict(os.environ, PYTHONPATH=path, FRAMEJIT_STRICT="1", FRAMEJIT_SHADOW="0")
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + ONE_GRAPH + ACROSS_A_BREAK], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout.decode()
