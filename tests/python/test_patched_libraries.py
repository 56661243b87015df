"""What a program replaces in torch or the standard library after a capture is what the next call runs."""

import builtins
import collections
import copy
import dataclasses
import enum
import functools
import math
import operator
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framejit
from support import counts

linear = nn.Linear(4, 4)
norm = nn.LayerNorm(4)
lstm = nn.LSTM(4, 4)
chain = nn.Sequential(linear, nn.GELU())


@dataclasses.dataclass
class Item:
    at: int


class Kind(enum.Enum):
    A = 1
    B = 2


def twice(x, *args, **kwargs):
    return x * 2


def seven(*args):
    return 7


# What runs, the holder of what is replaced, its name, the replacement.
REPLACED = [
    (lambda x: torch.relu(x) + 1, torch, "relu", twice),
    (lambda x: F.relu(x) + 1, F, "relu", twice),
    (lambda x: torch.nn.functional.relu(x) + 1, torch.nn, "functional", types.SimpleNamespace(relu=twice)),
    (lambda x: F.relu(x) + 1, F.relu, "__code__", (lambda input, inplace=False: input * 2).__code__),
    (lambda x: F.leaky_relu(x) + 1, F.leaky_relu, "__defaults__", (0.5, False)),
    (lambda x: F.dropout(x, 0.0) + 1, torch._VF, "dropout", twice),
    (lambda x: F.softmax(x, -1), torch.Tensor, "softmax", twice),
    (lambda x: F.gelu(x) + F.elu(x), torch._C._nn, "elu", twice),
    (lambda x: F.hardtanh(x) + 1, torch._C, "_nn", types.SimpleNamespace(hardtanh=twice)),
    (lambda x: torch.einsum("ij->i", x), torch._VF, "einsum", lambda equation, operands: 7),
    (lambda x: lstm(x)[0] + 1, torch._VF, "lstm", lambda x, *args: (x * 2, x, x)),
    (lambda x: x.split(1)[0] + 1, torch.Tensor, "split", lambda self, size: [self * 2]),
    (lambda x: linear(x) + 1, F, "linear", twice),
    (lambda x: norm(x) + 1, torch, "layer_norm", twice),
    (lambda x: chain(x) + 1, F, "gelu", twice),
    (lambda x: linear(x) + 1, nn.Linear, "forward", lambda self, x: x * 2),
    (lambda x: linear(x) + 1, nn.Module, "__call__", lambda self, x: x * 2),
    (lambda x: linear(x) + 1, nn.Module, "_call_impl", lambda self, x: x * 2),
    (lambda x: linear(x) + 1, nn.Linear, "__call__", lambda self, x: x * 2),
    (lambda x: chain(x) + 1, nn.Sequential, "__iter__", lambda self: iter([])),
    (lambda x: linear(x), nn.modules.module, "_global_forward_hooks", {1: lambda m, args, out: out * 2}),
    (lambda x: x.relu() + 1, torch.Tensor, "relu", twice),
    (lambda x: x + x.shape[0], torch.Tensor, "shape", property(lambda self: (9,))),
    (lambda x: x + 1, torch.Tensor, "__add__", twice),
    (lambda x: 1 + x, torch.Tensor, "__radd__", twice),
    (lambda x: 1 - x, torch.Tensor, "__rsub__", twice),
    (lambda x: -x, torch.Tensor, "__neg__", twice),
    (lambda x: x == 1, torch.Tensor, "__eq__", twice),
    (lambda x: x[0], torch.Tensor, "__getitem__", twice),
    (lambda x: x + len(x), torch.Tensor, "__len__", lambda self: 9),
    (lambda x: list(x)[0], torch.Tensor, "__iter__", lambda self: iter([self * 2])),
    (lambda x: x.to(torch.float32), torch, "float32", torch.float64),
    (lambda x: x + math.sqrt(4), math, "sqrt", seven),
    (lambda x: x + len([1, 2]), builtins, "len", seven),
    (lambda x: x + float(3), builtins, "float", seven),
    (lambda x: operator.add(x, 1), operator, "add", seven),
    (lambda x: functools.reduce(operator.add, [x, x]), functools, "reduce", seven),
    (lambda x: x + copy.copy([1])[0], copy, "copy", lambda value: [7]),
    (lambda x: x + dataclasses.replace(Item(1), at=2).at, dataclasses, "replace", lambda item, at: Item(7)),
    (lambda x: x + Kind(1).value, enum.EnumMeta, "__call__", lambda self, value: Kind.B),
    (lambda x: x + len(collections.Counter("aab")), collections, "Counter", lambda text: [1] * 9),
    (lambda x: x + len(collections.Counter("aab")), collections.Counter, "__len__", lambda self: 9),
]


@pytest.mark.parametrize(
    "program, holder, name, replacement",
    REPLACED,
    ids=[f"{getattr(holder, '__name__', holder)}.{name}-{i}" for i, (_, holder, name, _) in enumerate(REPLACED)],
)
def test_replaced_after_the_capture(program, holder, name, replacement, monkeypatch):
    x = torch.randn(4, 4)
    compiled = framejit.to_static(program)
    before = program(x)
    inherited = name not in vars(holder)
    for _ in range(2):
        same(compiled(x), before)
    with monkeypatch.context() as patch:
        patch.setattr(holder, name, replacement, raising=False)
        expected = program(x)
        actual = [compiled(x) for _ in range(2)]
    if inherited and name in vars(holder):  # older pytests leave there what was found elsewhere
        delattr(holder, name)
    for result in actual:
        same(result, expected)
    with counts.counting() as counted:
        same(compiled(x), before)
    assert counted.hits == 1


def same(actual, expected):
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor) and actual.dtype == expected.dtype
        assert torch.equal(actual, expected)
    else:
        assert type(actual) is type(expected) and actual == expected


def test_what_is_replaced_before_the_first_capture_runs(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "__mul__", lambda self, other: self + 100)
    monkeypatch.setattr(torch, "tanh", twice)
    compiled = framejit.to_static(lambda x: torch.tanh(x * 3))
    x = torch.randn(4)
    for _ in range(2):
        assert torch.equal(compiled(x), (x + 100) + 100)


def test_a_module_that_gets_a_call_of_its_own():
    module = nn.Linear(4, 4)
    compiled = framejit.to_static(lambda x: module(x))
    x = torch.randn(4, 4)
    assert torch.equal(compiled(x), module(x))
    module._compiled_call_impl = lambda x: x * 3
    for _ in range(2):
        assert torch.equal(compiled(x), x * 3)
