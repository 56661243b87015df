"""Objects that hash and compare by their value, as keys: another value in a later call gives another result."""

import collections
import datetime
import decimal
import fractions
import pathlib
import re
import types
import uuid

import numpy
import pytest
import torch

import framejit
from support.counts import counting

Point = collections.namedtuple("Point", "a b")


class Text(str):
    pass


class Number(int):
    pass


class Pair(tuple):
    pass


VALUES = {
    "namedtuple": (Point(1, 2), Point(1, 3), Point(1, 2)),
    "namedtuple of tuples": (Point((1,), 2), Point((2,), 2), Point((1,), 2)),
    "tuple of namedtuples": ((Point(1, 2), 3), (Point(1, 3), 3), (Point(1, 2), 3)),
    "subclass of tuple": (Pair("ab"), Pair("ac"), Pair("ab")),
    "subclass of str": (Text("ab"), Text("cd"), Text("ab")),
    "subclass of int": (Number(5), Number(6), Number(5)),
    "date": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2020, 1, 1)),
    "timedelta": (datetime.timedelta(1), datetime.timedelta(2), datetime.timedelta(1)),
    "Decimal": (decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("1.5")),
    "Fraction": (fractions.Fraction(1, 2), fractions.Fraction(1, 3), fractions.Fraction(1, 2)),
    "path": (pathlib.PurePath("a"), pathlib.PurePath("b"), pathlib.PurePath("a")),
    "UUID": (uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1)),
    "pattern": (re.compile("a"), re.compile("b"), re.compile("a")),
    "numpy number": (numpy.int64(5), numpy.int64(6), numpy.int64(5)),
    "numpy text": (numpy.str_("ab"), numpy.str_("cd"), numpy.str_("ab")),
    "device": (torch.device("cpu"), torch.device("meta"), torch.device("cpu")),
}
USES = {
    "found in a dict": lambda value, first: value in {first: 1},
    "read from a dict": lambda value, first: {first: 1}.get(value),
    "found in a set": lambda value, first: value in {first},
    "two in a set": lambda value, first: len({value, first}),
    "two in a dict": lambda value, first: len({value: 1, first: 2}),
    "counted": lambda value, first: list(collections.Counter([value, first]).values()),
    "inside of a key": lambda value, first: (value, 1) in {(first, 1): 2},
    "united": lambda value, first: len({value} | {first}),
    "keys of fromkeys": lambda value, first: len(dict.fromkeys([value, first])),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", VALUES)
def test_another_value_later(kind, use):
    first, other, equal = VALUES[kind]
    asked = USES[use]
    holder = types.SimpleNamespace(value=first)

    def fn(x):
        return x + 1, asked(holder.value, first)

    compiled = framejit.to_static(fn)
    x = torch.arange(3.0)
    with counting() as counted:
        for holder.value in (first, first, other, other, first, equal, other):
            assert str(compiled(x)) == str(fn(x)), holder.value
    assert counted.captures >= 2 and counted.hits >= 1, counted


@pytest.mark.parametrize("use", ["getattr", "setattr", "hasattr", "delattr"])
def test_name_of_an_attribute_that_is_a_subclass_of_str(use):
    holder = types.SimpleNamespace(name=Text("ab"))

    def fn(x):
        subject = types.SimpleNamespace(ab=1)
        try:
            result = {"getattr": getattr, "hasattr": hasattr, "delattr": delattr}[use](subject, holder.name)
        except KeyError:
            result = setattr(subject, holder.name, 5)
        except AttributeError:
            result = "missing"
        return x + 1, result, sorted(vars(subject))

    compiled = framejit.to_static(fn)
    x = torch.arange(3.0)
    with counting() as counted:
        for holder.name in (Text("ab"), Text("cd"), Text("ab")):
            assert str(compiled(x)) == str(fn(x)), holder.name
    assert counted.captures >= 2, counted


def test_text_of_a_subclass_in_a_format():
    class Shown(str):
        pass

    holder = types.SimpleNamespace(text=Shown("ab"))

    def fn(x):
        return x + 1, f"{holder.text:>5}", f"{holder.text}", f"{Shown('in'):>5}", f"{Shown('in')}"

    compiled = framejit.to_static(fn)
    x = torch.arange(3.0)
    with counting() as counted:
        assert str(compiled(x)) == str(fn(x))
        Shown.__str__ = lambda self: "shown"
        assert str(compiled(x)) == str(fn(x))
        holder.text = Shown("cd")
        assert str(compiled(x)) == str(fn(x))
    assert counted.graphs >= 1, counted


HASHES = {
    "hash": lambda x, y: hash(x) == id(x),
    "method": lambda x, y: x.__hash__() == id(x),
    "function of the type": lambda x, y: torch.Tensor.__hash__(x) == id(x),
    "of a result": lambda x, y: hash(x + 1) == hash(x),
    "in a tuple": lambda x, y: hash((x, 1)) == hash((id(x), 1)),
    "after a break": lambda x, y: (framejit.graph_break(), hash(x) == y)[1],
    "before a break": lambda x, y: (hash(x) == y, framejit.graph_break())[0],
}


@pytest.mark.parametrize("name", HASHES)
def test_hash_of_a_tensor_is_its_own(name):
    program = HASHES[name]
    compiled = framejit.to_static(program)
    for _ in range(2):
        x = torch.ones(3)
        assert compiled(x, id(x)) == program(x, id(x))
