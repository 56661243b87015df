"""Random programs of views and writes over arguments that may share memory: as eager, to the bit, with the same sharing.

An entry also serves calls whose arguments share memory otherwise than those of its capture.

FRAMEJIT_RANDOM_ALIASES is how many programs run, 100 if it is not set. Left out is what docs/design.md says differs:
`detach_`, and changes of grad mode or data of a base that has views.
"""

import contextlib
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import framejit
from support.examples import random_examples


def without_grad(fn):
    def run(*arguments):
        with torch.no_grad():
            return fn(*arguments)

    return run


VIEWS = [
    lambda x, n: x.view(-1),
    lambda x, n: x.view(x.shape),
    lambda x, n: x.reshape(-1, 2),
    lambda x, n: x.t(),
    lambda x, n: x.transpose(0, -1),
    lambda x, n: x[n % 3],
    lambda x, n: x[..., n % 2 :],
    lambda x, n: x[:: n % 2 + 1],
    lambda x, n: x.unsqueeze(n % 2),
    lambda x, n: x.squeeze(0),
    lambda x, n: x.unbind(0)[n % 2],
    lambda x, n: x.chunk(2, 0)[n % 2],
    lambda x, n: x.split([1, x.shape[0] - 1])[n % 2],
    lambda x, n: x.expand(2, *x.shape),
    lambda x, n: x.diagonal(),
    lambda x, n: x.narrow(0, 0, 1 + n % 2),
    lambda x, n: x.as_strided((2, 2), (1, n % 3), n % 2),
    lambda x, n: x.detach(),
    lambda x, n: x.data,
    lambda x, n: x.flatten(),
    lambda x, n: x.contiguous(),
    lambda x, n: x.unfold(0, 2, 1),
    lambda x, n: x.view(torch.int32),
    lambda x, n: x.movedim(0, -1),
    lambda x, n: x.to(torch.float32),
    lambda x, n: x.real,
    lambda x, n: torch.ops.aten.alias(x),
    without_grad(lambda x, n: x[n % 2]),
    without_grad(lambda x, n: x.view(-1)),
]
NEW = [
    lambda x, y, n: x + 1,
    lambda x, y, n: x * y,
    lambda x, y, n: x.clone(),
    lambda x, y, n: x.sum(0, keepdim=True),
    lambda x, y, n: torch.cat([x, x]),
    lambda x, y, n: torch.where(x > 0, x, y),
    lambda x, y, n: torch.empty_like(x).copy_(y),
    lambda x, y, n: torch.zeros(3, 4),
    without_grad(lambda x, y, n: x * y),
]
WRITES = [
    lambda x, y, n: x.add_(1),
    lambda x, y, n: x.mul_(y),
    lambda x, y, n: x.copy_(y),
    lambda x, y, n: x.zero_(),
    lambda x, y, n: x.fill_(n),
    lambda x, y, n: x.__setitem__(n % 2, y),
    lambda x, y, n: x.__setitem__((..., slice(1)), n),
    lambda x, y, n: x.__setitem__(x > 0, float(n)),
    lambda x, y, n: x.t_(),
    lambda x, y, n: x.unsqueeze_(0),
    lambda x, y, n: x.squeeze_(),
    lambda x, y, n: torch.add(x, 1, out=y),
    lambda x, y, n: x.index_add_(0, torch.tensor([0]), y[:1]),
    lambda x, y, n: x.clamp_(max=n),
    lambda x, y, n: x.transpose_(0, -1),
    lambda x, y, n: x.set_(y),
    lambda x, y, n: x.swapaxes_(0, -1),
    without_grad(lambda x, y, n: x.mul_(2)),
    without_grad(lambda x, y, n: x.copy_(y)),
]
KINDS = {"view": VIEWS, "new": NEW, "write": WRITES}
# What is given for the two arguments, from one tensor of four rows.
ARGUMENTS = [
    lambda base: (base, base.clone()),
    lambda base: (base, base),
    lambda base: (base, base[1:]),
    lambda base: (base[:3], base[1:]),
    lambda base: (base, base.t()),
    lambda base: (base[:2], base[2:]),
    lambda base: (base[::2], base[1::2]),
    lambda base: (base, base.view(2, 8)),
    lambda base: (base, base.detach()),
]
MODES = [contextlib.nullcontext, contextlib.nullcontext, torch.no_grad, torch.inference_mode]

given_arguments = st.integers(0, len(ARGUMENTS) - 1)
numbers = st.integers(0, 999)
steps = st.lists(
    st.tuples(st.sampled_from(["view", "view", "write", "write", "new"]), numbers, numbers, numbers, st.integers(0, 5)),
    min_size=1,
    max_size=9,
)


def made_program(steps, said):
    def program(x, y):
        values = [x, y]
        for kind, function, first, second, n in steps:
            one, two = values[first % len(values)], values[second % len(values)]
            try:
                if kind == "view":
                    values.append(KINDS[kind][function % len(KINDS[kind])](one, n))
                elif kind == "new":
                    values.append(KINDS[kind][function % len(KINDS[kind])](one, two, n))
                else:
                    KINDS[kind][function % len(KINDS[kind])](one, two, n)
            except (RuntimeError, IndexError, ValueError) as error:
                said.append(str(error))
                values.append(torch.full((2,), float(len(values))))
        return values

    return program


def bits(value):
    return value.detach().numpy().tobytes()


def account(value, all_values):
    """What is compared of a result: itself, and how it lies beside the others."""
    shares = [other.untyped_storage()._cdata == value.untyped_storage()._cdata for other in all_values]
    return {
        "bits": bits(value),
        "layout": (str(value.dtype), tuple(value.shape), value.stride(), value.storage_offset()),
        "same": [other is value for other in all_values],
        "shares": shares,
        "base": [other is value._base for other in all_values] if value._is_view() else None,
        "autograd": (value.requires_grad, value.is_leaf, value._is_view(), value.is_inference()),
        "storage": value.untyped_storage().nbytes(),
    }


def attempt(run):
    try:
        return run()
    except RuntimeError as error:  # a view that may not be written was
        return re.sub(r"(Output \d+ of) \w+", r"\1 a node", str(error)).split("\n")[0]


class Gradient:
    """Equal to one that is the same sum in another order."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Gradient) and torch.allclose(self.value, other.value, rtol=1e-5, atol=1e-6, equal_nan=True)


def lead(program, arguments, with_history, from_leaf, mode):
    """What is seen of one call: its results, the backward, and what a write to each result changes afterwards."""
    torch.manual_seed(1)
    leaf = torch.linspace(-2, 2, 16).reshape(4, 4).clone().requires_grad_(with_history)
    base = leaf if from_leaf or not with_history else leaf * 1
    given = ARGUMENTS[arguments](base)
    try:
        with mode():
            values = [base, *given, *program(*given)]
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0], [bits(value) for value in (base, *given)]
    seen = [attempt(lambda value=value: account(value, values)) for value in values]
    try:
        if with_grad := [value for value in values if value.requires_grad and value.is_floating_point()]:
            sum((value * value).sum() for value in with_grad).backward(retain_graph=True)
        seen.append(None if leaf.grad is None else Gradient(leaf.grad))
    except RuntimeError as error:
        seen.append(str(error).split("[")[0].split(":")[0])
    for value in values:
        with torch.no_grad():
            try:
                value.add_(1)
            except RuntimeError as error:
                seen.append(str(error).split("\n")[0])
        seen.append([bits(other) for other in values])
    return seen


@pytest.mark.runs_once("arguments get other storages and sizes, which is not taken back between the runs")
def test_random_aliases():
    captured = []

    @random_examples("FRAMEJIT_RANDOM_ALIASES", 100)
    @given(steps, given_arguments, given_arguments, st.booleans(), st.booleans(), st.sampled_from(MODES))
    def check(steps, first, later, with_history, from_leaf, mode):
        program = made_program(steps, [])
        framejit.reset()
        compiled = framejit.to_static(program)
        for arguments in (first, first, later, first):
            expected = lead(program, arguments, with_history, from_leaf, mode)
            got = lead(compiled, arguments, with_history, from_leaf, mode)
            assert len(got) == len(expected)
            for index, (a, b) in enumerate(zip(expected, got)):
                different = {key for key in a if a[key] != b[key]} if isinstance(a, dict) and isinstance(b, dict) else ""
                assert a == b, f"at {index} {different}"
        captured.append(bool(compiled.graphs))

    check()
    assert sum(captured) >= len(captured) / 2, f"{sum(captured)} of {len(captured)} programs have a graph"
