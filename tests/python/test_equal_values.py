"""Values that are equal, or nearly, and yet not alike: a capture for one is none for the other."""

import collections
import decimal
import enum
import fractions
import math
import random

import pytest
import torch

import framejit


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class OwnInt(int):
    pass


class OwnStr(str):
    pass


NAN = float("nan")
VALUES = [
    1, True, 1.0, 0, False, -0.0, 0.0, NAN, float("nan"), math.inf, -1, 2**70, Level.ONE, OwnInt(1), 1 + 0j, None, "1", "a", OwnStr("a"), b"a",
    (1,), (True,), (1.0,), (NAN,), (-0.0,), [1], [True], [-0.0], [[1]], [[True]], (1, (True,)), ((1,), True), bytearray(b"a"),
    {1: 2}, {True: 2}, {1.0: 2}, {1: True}, {"k": [1]}, {"k": [1.0]}, {"a": 1}, {"b": 1, "a": 1}, {"a": 1, "b": 1}, collections.OrderedDict(a=1),
    frozenset([1]), frozenset([True]), {1}, {True}, range(1), range(0, 1, 2), range(0, 2, 2), slice(1), slice(True), ..., decimal.Decimal(1),
    fractions.Fraction(1), collections.deque([1]), collections.deque([True]), collections.deque([1], 3), torch.float32, torch.float64, int, bool,
]  # fmt: skip


def alike(value):
    """What tells it from those that are equal to it."""
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return type(value), [alike(item) for item in value], getattr(value, "maxlen", None)
    if isinstance(value, dict):
        return type(value), [(alike(key), alike(item)) for key, item in value.items()]
    return type(value), repr(value)


USES = {
    "the value": lambda v: v,
    "repr": lambda v: repr(v),
    "an f-string": lambda v: f"{v}",
    "its type": lambda v: type(v).__name__,
    "alike": alike,
    "== 1": lambda v: v == 1,
    "bool": lambda v: bool(v),
    "is True": lambda v: v is True,
    "isinstance": lambda v: (isinstance(v, bool), isinstance(v, int)),
    "in a list": lambda v: [v],
    "in a dict": lambda v: {"a": v},
    "as a key": lambda v: {v: 1},
    "looked up": lambda v: {1: "one", "a": "A", (1,): "t"}.get(v),
    "in": lambda v: v in (1, 2, "a"),
    "+": lambda v: v + v,
    "* 2": lambda v: v * 2,
    "/ 2": lambda v: v / 2,
    "-": lambda v: -v,
    "< 2": lambda v: v < 2,
    "** 2": lambda v: v**2,
    "len": lambda v: len(v),
    "sum": lambda v: sum(v),
    "list": lambda v: list(v),
    "first item": lambda v: v[0],
    "items": lambda v: list(v.items()),
    "copysign": lambda v: math.copysign(1, v),
    "int": lambda v: int(v),
    "float": lambda v: float(v),
    "and or": lambda v: (v and 3) or 4,
    "a tensor": lambda v: torch.tensor(v).dtype,
    "a full tensor": lambda v: torch.full((2,), v).dtype,
    "with a tensor": lambda v: (torch.ones(1, dtype=torch.int64) + v).dtype,
    "its fields": lambda v: (v.start, v.stop, v.step),
    "== itself": lambda v: v == v,  # noqa: PLR0124
    "max": lambda v: max(v, 0),
    "bit_length": lambda v: v.bit_length(),
    "upper": lambda v: v.upper(),
}


@pytest.mark.parametrize("what", USES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_value_gives_what_it_gives_in_eager(what):
    use, x = USES[what], torch.ones(2)

    def outcome(call):
        try:
            result = call()
        except Exception as error:
            return type(error), str(error)
        return alike(result)

    def f(value, x):
        return use(value), x.sin()

    order = VALUES * 2
    random.Random(what).shuffle(order)
    compiled = framejit.to_static(f)
    for at, value in enumerate(order):
        if at % 12 == 0:
            framejit.reset()
        expected = outcome(lambda: use(value))
        assert outcome(lambda: compiled(value, x)[0]) == expected, value
    assert framejit.stats()["captures"] >= 1
