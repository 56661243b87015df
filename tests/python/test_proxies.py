"""What stands for an object while the trace runs is, to the program, of the type of what it stands for."""

import collections.abc
import inspect
import sys
import types
import typing

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager


def numbers():
    yield 1
    yield 2


class Makes:
    def __iter__(self):
        yield 3

    def __add__(self, other):
        yield other

    @property
    def made(self):
        yield 4


@typing.runtime_checkable
class Closes(typing.Protocol):
    def close(self): ...


MADE = {
    "call": numbers,
    "expression": lambda: (i for i in [1]),
    "iter": lambda: iter(Makes()),
    "operator": lambda: Makes() + 1,
    "property": lambda: Makes().made,
}

QUESTIONS = {
    "type": lambda g: (type(g) is types.GeneratorType, type(g).__name__, type(g).__module__, str(type(g))),
    "__class__": lambda g: (g.__class__ is types.GeneratorType, g.__class__.__qualname__),
    "isinstance": lambda g: (isinstance(g, types.GeneratorType), isinstance(g, (int, types.GeneratorType))),
    "isinstance of others": lambda g: (isinstance(g, (list, tuple)), isinstance(g, object), isinstance(g, types.CoroutineType)),
    "abc": lambda g: (isinstance(g, collections.abc.Generator), isinstance(g, collections.abc.Sequence)),
    "typing": lambda g: (isinstance(g, typing.Iterable), isinstance(g, typing.Sized)),
    "protocol": lambda g: isinstance(g, Closes),
    "inspect": lambda g: (inspect.isgenerator(g), inspect.isfunction(g), inspect.iscoroutine(g)),
    "hasattr": lambda g: (hasattr(g, "send"), hasattr(g, "gi_frame"), hasattr(g, "missing")),
    "name": lambda g: g.__name__,
    "state": lambda g: inspect.getgeneratorstate(g),
    "callable": lambda g: callable(g),
}

ERRORS = {
    "len": lambda g, x: len(g),
    "item": lambda g, x: g[0],
    "add": lambda g, x: g + None,
    "compare": lambda g, x: g < None,
    "call": lambda g, x: g(),
    "attribute": lambda g, x: g.missing,
    "set attribute": lambda g, x: setattr(g, "missing", 1),
    "set class": lambda g, x: setattr(g, "__class__", int),
    "delete attribute": lambda g, x: delattr(g, "missing"),
    "name of an attribute": lambda g, x: getattr(x, g),
    "index": lambda g, x: [1][g],
    "index of a tensor": lambda g, x: x[g],
    "number": lambda g, x: float(g),
    "text": lambda g, x: "%d" % g,
    "operand of a tensor": lambda g, x: torch.add(x, g),
    "context": lambda g, x: g.__enter__(),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_generator_is_a_generator(made, question):
    def f(x):
        return x + 1, question(made())

    assert_same_as_eager(f, torch.ones(2), breaks=None, graphs=None, warm=False)


@pytest.mark.parametrize("wrong", ERRORS.values(), ids=ERRORS)
def test_errors_name_a_generator(wrong):
    def f(x):
        try:
            wrong(numbers(), x)
        except (AttributeError, TypeError, IndexError) as error:
            return x + 1, type(error), str(error)

    assert_same_as_eager(f, torch.ones(2), breaks=None, graphs=None, warm=False)


def test_generators_that_a_function_asks_for_are_in_the_graph():
    def total(values):
        if isinstance(values, (torch.Tensor, torch.nn.Parameter)):
            return values
        if isinstance(values, types.GeneratorType):
            values = list(values)
        return sum(values)

    def f(x):
        return x * total(i for i in range(3)) + total([1, 2])

    with counting() as counted:
        assert torch.equal(framejit.to_static(f)(torch.ones(2)), torch.full((2,), 6.0))
    assert counted.graphs == 1 and not counted.breaks


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match statements came with Python 3.10")
def test_class_pattern_matches_a_generator():
    from support.source import define_function

    f = define_function(
        """
        def f(x):
            match (i for i in [1, 2]):
                case list():
                    return x
                case types.GeneratorType() as values:
                    return x * sum(values)
        """,
        types=types,
    )
    assert_same_as_eager(f, torch.ones(2), breaks=None)


def test_traceback_is_a_traceback():
    def f(x):
        try:
            raise ValueError("a")
        except ValueError as error:
            traceback = error.__traceback__
            return x + 1, type(traceback).__name__, isinstance(traceback, types.TracebackType)

    assert_same_as_eager(f, torch.ones(2), breaks=None, graphs=None)
