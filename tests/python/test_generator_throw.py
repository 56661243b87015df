"""Exceptions that are thrown into generators of the program, and values that are sent, wherever those stand."""

import pytest
import torch

from support.same_as_eager import assert_same_as_eager


def steps(x, log):
    try:
        yield x + 1
        yield x + 2
    except ValueError as error:
        log.append(str(error))
        yield x * 3


def delegating(x, log):
    yield from steps(x, log)


def thrown(x, make, before):
    log = []
    generator = make(x, log)
    for _ in range(before):
        next(generator, None)
    try:
        result = generator.throw(ValueError("thrown"))
    except ValueError as error:
        result = (str(error), x - 1)
    return result, list(generator), log


STANDS = pytest.mark.parametrize("before", [0, 1, 2, 3], ids=["not begun", "at the first", "at the last", "ended"])


@STANDS
def test_throw(before):
    assert_same_as_eager(thrown, torch.ones(2), steps, before, breaks=0)


@STANDS
def test_throw_through_a_generator_that_delegates(before):
    """Those that have begun are left to the interpreter."""
    assert_same_as_eager(thrown, torch.ones(2), delegating, before, breaks=None, graphs=None, warm=False)


def sent(x, make, before, value):
    log = []
    generator = make(x, log)
    for _ in range(before):
        next(generator, None)
    try:
        result = generator.send(value)
    except (TypeError, StopIteration) as error:
        result = type(error).__name__, str(error), x - 1
    return result, list(generator), log


@pytest.mark.parametrize("value", [None, 5])
@STANDS
def test_send(before, value):
    """Only None to one that has not begun."""
    assert_same_as_eager(sent, torch.ones(2), steps, before, value, breaks=None)
