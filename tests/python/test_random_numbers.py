"""Random programs that take numbers out of tensors, compute with them, and write: as eager, to the bit but for sums of
gradients, over arguments that may share memory, and where Python raises for a number.

FRAMEJIT_RANDOM_NUMBERS is how many programs run, 100 if it is not set.
"""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

import framejit
from support.examples import random_examples

TAKEN = [
    lambda x: x.sum().item(),
    lambda x: x.mean().item(),
    lambda x: float(x.max()),
    lambda x: x.flatten()[0].item(),
    lambda x: x.reshape(-1)[-1].tolist(),
]
COMPUTED = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - 1,
    lambda a, b: a / b,
    lambda a, b: 1 / a,
    lambda a, b: a / 4,
    lambda a, b: a**2,
    lambda a, b: a**b,
    lambda a, b: 10.0**a,
    lambda a, b: math.sqrt(a),
    lambda a, b: -a,
    lambda a, b: sum([a, b]),
    lambda a, b: b if a < 0.3 else -b,
    lambda a, b: max(a, b),
    lambda a, b: abs(a),
    lambda a, b: round(a, 1),
    lambda a, b: a // 2 + a % 3,
    lambda a, b: float(f"{a:.2f}"),
    lambda a, b: float(int(a)),
    lambda a, b: 1.5 if a else 0.25,
    lambda a, b: float(a == b),
    lambda a, b: math.floor(a) * 0.5,
    lambda a, b: torch.tensor(a).item(),
]
NEW = [
    lambda x, y, a: x * a,
    lambda x, y, a: x + y * a,
    lambda x, y, a: torch.add(x, y, alpha=a),
    lambda x, y, a: x.clamp(min=a),
    lambda x, y, a: x.clone(),
    lambda x, y, a: torch.full_like(x, a),
]
VIEWS = [lambda x: x[1:], lambda x: x.t(), lambda x: x.view(-1), lambda x: x[:, ::2]]
# Without a history only: see test_views_and_writes.py, test_write_to_a_view_that_a_graph_has_read.
DETACH = [lambda x: x.detach()]
WRITES = [
    lambda x, y, a: x.mul_(a),
    lambda x, y, a: x.add_(y, alpha=a),
    lambda x, y, a: x.fill_(a),
    lambda x, y, a: x.zero_(),
    lambda x, y, a: x.copy_(y),
    lambda x, y, a: x.__setitem__(0, a),
    lambda x, y, a: x.add_(1),
]
# What is given for the two arguments, from one tensor of four rows.
ARGUMENTS = [
    lambda base: (base, base.clone()),
    lambda base: (base, base),
    lambda base: (base, base.view(4, 4)),
    lambda base: (base[:3], base[1:]),
    lambda base: (base[:2], base[2:]),
    lambda base: (base, base.t()),
    lambda base: (base, base.detach()),
]

numbers = st.integers(0, 999)
kinds = ["take", "take", "compute", "compute", "new", "view", "write", "write"]
steps = st.lists(st.tuples(st.sampled_from(kinds), numbers, numbers, numbers, numbers), min_size=2, max_size=12)


def made_program(steps, handles, with_history):
    views = VIEWS if with_history else VIEWS + DETACH

    def step(values, found, kind, function, first, second, number):
        one, two = values[first % len(values)], values[second % len(values)]
        a, b = found[number % len(found)], found[second % len(found)]
        if kind == "take":
            found.append(TAKEN[function % len(TAKEN)](one))
        elif kind == "compute":
            found.append(COMPUTED[function % len(COMPUTED)](a, b))
        elif kind == "new":
            values.append(NEW[function % len(NEW)](one, two, a))
        elif kind == "view":
            values.append(views[function % len(views)](one))
        else:
            WRITES[function % len(WRITES)](one, two, a)

    def program(x, y, number):
        values, found = [x, y], [number, 0.5]
        for each in steps:
            if not handles:
                step(values, found, *each)
                continue
            try:
                step(values, found, *each)
            except (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError) as error:
                found.append(float(len(str(error))))
        return values, found

    return program


def bits(value):
    return value.detach().contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value)


def gradient_of(leaf, values):
    with_history = [value for value in values if value.requires_grad]
    if not with_history:
        return None
    try:
        sum((value * value).sum() for value in with_history).backward()
    except RuntimeError as error:
        return str(error).split("[")[0].split(":")[0]
    return leaf.grad


def lead(program, arguments, scale, number, with_history):
    """What is seen of one call: its results, or the error, what the arguments are afterwards, and the gradient."""
    leaf = ((torch.arange(16.0) * 0.25 - 1) * scale).reshape(4, 4).requires_grad_(with_history)
    base = leaf * 1
    given = ARGUMENTS[arguments](base)
    try:
        values, found = program(*given, number)
    except Exception as error:
        return [type(error).__name__, str(error).split("\n")[0], *map(bits, (base, *given))], None
    return [*map(bits, (base, *given, *values, *found))], gradient_of(leaf, values)


def assert_alike(expected, got, call):
    assert got[0] == expected[0], call
    if isinstance(expected[1], torch.Tensor) and isinstance(got[1], torch.Tensor):
        torch.testing.assert_close(got[1], expected[1], equal_nan=True)
    else:
        assert got[1] == expected[1], call


def test_random_numbers():
    captured = []

    @random_examples("FRAMEJIT_RANDOM_NUMBERS", 100)
    @given(
        steps,
        st.booleans(),
        st.lists(st.integers(0, len(ARGUMENTS) - 1), min_size=2, max_size=5),
        numbers,
        st.booleans(),
    )
    def check(steps, handles, arguments, chosen, with_history):
        count = len(ARGUMENTS) - with_history
        program = made_program(steps, handles, with_history)
        framejit.reset()
        compiled = framejit.to_static(program)
        for call, one in enumerate([arguments[0], *arguments]):
            given = one % count, [1.0, 0.5, 0.0][(chosen + call) % 3], [0.25, 0.0, -3.0, 2.5][(chosen * call) % 4]
            assert_alike(lead(program, *given, with_history), lead(compiled, *given, with_history), call)
        captured.append(bool(compiled.graphs))

    check()
    assert sum(captured) >= len(captured) / 2, f"{sum(captured)} of {len(captured)} programs have a graph"
