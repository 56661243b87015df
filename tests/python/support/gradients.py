"""A small network, and what a program sees of gradients."""

import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layers(x)


def inputs():
    torch.manual_seed(3)
    return torch.randn(5, 6)


def facts(tensor):
    """What a program sees of a gradient."""
    if tensor is None:
        return None
    return (
        tensor.detach().clone(),
        tensor.stride(),
        tensor._is_view(),
        tensor.requires_grad,
        tensor._version,
        tensor.dtype,
    )


def assert_same(a, b):
    if isinstance(a, (tuple, list)):
        assert type(a) is type(b) and len(a) == len(b)
        for left, right in zip(a, b):
            assert_same(left, right)
    elif isinstance(a, torch.Tensor):
        assert a.shape == b.shape and torch.equal(a, b), (a, b)
    else:
        assert a == b, (a, b)


def loss_of(net, x):
    return net(x).pow(2).mean()


def assert_error(eager, compiled):
    with pytest.raises(RuntimeError) as expected:
        eager()
    with pytest.raises(RuntimeError, match=str(expected.value)[:40].replace("(", r"\(")):
        compiled()
