"""Random networks over images: convolutions, norms, elementwise operators, writes in place and views, in any order."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import nn

CHANNELS = 4

# What a step makes of the values so far, a list of images of one size; it may write one, and adds one to the list.
F = nn.functional
IN_PLACE = [
    lambda x: F.relu_(x),
    lambda x: F.hardswish(x, inplace=True),
    lambda x: F.silu(x, inplace=True),
    lambda x: x.mul_(0.5),
    lambda x: x.add_(1),
    lambda x: x[:, 1:3].neg_(),
    lambda x: (x.view(x.shape[0], -1) if x.is_contiguous() else x).tanh_(),
    lambda x: x.transpose(2, 3).sigmoid_(),
]
ELEMENTWISE = [F.relu, F.hardswish, F.silu, torch.sigmoid, torch.tanh, torch.neg, lambda x: x, lambda x: x.clone()]
SHAPES = [
    lambda x: F.max_pool2d(x, 3, 1, 1),
    lambda x: F.avg_pool2d(x, 3, 1, 1),
    lambda x: x.mean((2, 3), keepdim=True) * x,
    lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    lambda x: x.flip(3),
    lambda x: x.flatten(1).view(x.shape),
    lambda x: torch.cat([x[:, :2], x[:, 2:]], 1),
    lambda x: (
        x.permute(0, 2, 3, 1).reshape(-1, CHANNELS).softmax(1).view(x.shape[0], *x.shape[2:], -1).permute(0, 3, 1, 2)
    ),
]
PAIRS = [torch.add, torch.mul, torch.maximum, lambda x, y: x.add_(y), lambda x, y: x.copy_(y), lambda x, y: x.mul_(y)]


class Network(nn.Module):
    """Layers by number, and what to do with each result."""

    def __init__(self, steps, outputs):
        super().__init__()
        self.steps, self.outputs = steps, outputs
        self.layers = nn.ModuleList()
        for kind, which, _, _ in steps:
            layer = nn.Identity()
            if kind == "convolution":
                size, groups, bias = (1, 3)[which % 2], (1, 2, 4)[which % 3], which % 5 < 3
                layer = nn.Conv2d(CHANNELS, CHANNELS, size, padding=size // 2, groups=groups, bias=bias)
            elif kind == "norm":
                layer = nn.BatchNorm2d(CHANNELS, affine=which % 2 == 0)
                nn.init.uniform_(layer.running_var, 0.5, 2)
                nn.init.normal_(layer.running_mean)
            self.layers.append(layer)

    def forward(self, x):
        values = [x + 0]
        for layer, (kind, which, first, second) in zip(self.layers, self.steps):
            a, b = values[first % len(values)], values[second % len(values)]
            if kind in ("convolution", "norm"):
                values.append(layer(a))
            elif kind == "pair":
                values.append(PAIRS[which % len(PAIRS)](a, b))
            else:
                table = {"in_place": IN_PLACE, "elementwise": ELEMENTWISE, "shape": SHAPES}[kind]
                result = table[which % len(table)](a)
                values.append(result if result.shape == a.shape else a)
        return [values[i % len(values)] for i in self.outputs]


KINDS = ["convolution", "convolution", "norm", "in_place", "elementwise", "shape", "pair"]
NUMBER = st.integers(0, 11)
# The last values are read most often, so that chains come about.
STEP = st.tuples(
    st.sampled_from(KINDS), NUMBER, st.sampled_from([-1, -1, -1, -2, -3, 0]), st.sampled_from([-1, -2, -3])
)


def aliasing(values):
    return [[x is y for y in values] for x in values], [
        [x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for y in values] for x in values
    ]


STEPS = st.lists(STEP, min_size=2, max_size=9)
OUTPUTS = st.lists(st.integers(-4, -1), min_size=1, max_size=3)


def made_network(steps, outputs, convolutions=1):
    """The network that begins with so many convolutions, in evaluation."""
    return Network([("convolution", 1, -1, -1)] * convolutions + steps, outputs).eval()


def assert_does_as(call, module):
    """Two calls give what the module gives: numbers, layouts, and which results are one tensor or share memory."""
    with torch.no_grad():
        x = torch.randn(2, CHANNELS, 5, 6)
        expected = module(x)
        for _ in range(2):
            found = call(x)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, check_stride=True)
            assert aliasing(found) == aliasing(expected)
