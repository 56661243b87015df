"""contextvars (PEP 567): set and reset in a capture, read under guards, and what of it lies across a break."""

import contextvars

import pytest
import torch

import framejit
from support.counts import expect_capture, expect_counts, expect_hit
from support.same_as_eager import assert_same_as_eager

SCALE = contextvars.ContextVar("scale")
LEVEL = contextvars.ContextVar("level", default=5)


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


@pytest.fixture(autouse=True)
def own_context():
    """Each test finds SCALE unset, whatever the one before it did."""
    token = SCALE.set(None)
    SCALE.reset(token)
    yield


def test_set_and_reset_leave_nothing():
    def f(x):
        outer = SCALE.set(3)
        inner = LEVEL.set(x)
        try:
            x = x * SCALE.get() + LEVEL.get()
        finally:
            LEVEL.reset(inner)
            SCALE.reset(outer)
        return x + LEVEL.get(), SCALE.get(7), SCALE.get(None)

    check(f)


def test_exception_between_set_and_reset():
    def f(x):
        token = SCALE.set(2)
        try:
            x = x * SCALE.get()
            raise KeyError(SCALE.get())
        except KeyError as error:
            return x, error.args
        finally:
            SCALE.reset(token)

    check(f)


def test_reading_is_guarded():
    compiled = framejit.to_static(lambda x: x * SCALE.get(1) + LEVEL.get())
    x = x3()
    with expect_capture():
        assert torch.equal(compiled(x), x * 1 + 5)
    token = SCALE.set(4)
    with expect_capture("set"):
        assert torch.equal(compiled(x), x * 4 + 5)
    level = LEVEL.set(6)
    with expect_capture("another default"):
        assert torch.equal(compiled(x), x * 4 + 6)
    LEVEL.reset(level)
    with expect_hit("reset"):
        assert torch.equal(compiled(x), x * 4 + 5)
    SCALE.reset(token)
    with expect_hit("unset"):
        assert torch.equal(compiled(x), x * 1 + 5)


def test_old_value_of_a_token_is_guarded():
    def f(x):
        outer = SCALE.set(2)
        old = outer.old_value
        inner = SCALE.set(3)
        x = x * inner.old_value
        SCALE.reset(inner)
        SCALE.reset(outer)
        return (x if old is contextvars.Token.MISSING else x + old), outer.var is SCALE

    compiled = framejit.to_static(f)
    x = x3()
    with expect_capture():
        assert torch.equal(compiled(x)[0], x * 2)
    token = SCALE.set(5)
    with expect_capture("set"):
        assert torch.equal(compiled(x)[0], x * 2 + 5)
    SCALE.set(x)
    with expect_capture("of another type"):
        assert torch.equal(compiled(x)[0], x * 3)
    SCALE.reset(token)
    with expect_hit("unset"):
        assert torch.equal(compiled(x)[0], x * 2)


def test_unset_variable_raises():
    check(lambda x: (x + 1) * SCALE.get(), raises=LookupError, graphs=None, breaks=None)


def test_set_without_reset_happens():
    def f(x):
        x = x + 1
        SCALE.set(4)
        return x * SCALE.get()

    compiled = framejit.to_static(f)
    for when in ("cold", "warm"):
        token = SCALE.set(1)
        with expect_counts(when, fallbacks=0):
            assert torch.equal(compiled(x3()), (x3() + 1) * 4)
        assert SCALE.get() == 4
        SCALE.reset(token)


def test_break_between_set_and_reset():
    def f(x):
        x = x + 1
        token = SCALE.set(4)
        x = x * SCALE.get()
        framejit.graph_break()
        x = x - SCALE.get()
        SCALE.reset(token)
        return x, SCALE.get(None)

    check(f, graphs=None, breaks=None)


def test_token_used_twice_raises():
    def f(x):
        token = SCALE.set(1)
        SCALE.reset(token)
        x = x + 1
        try:
            SCALE.reset(token)
        except RuntimeError:
            return x * 2
        return x

    check(f, graphs=None, breaks=None)


def test_failed_capture_leaves_the_context_as_it_was():
    @framejit.to_static(full_graph=True)
    def f(x):
        token = SCALE.set(1)
        print("break")
        SCALE.reset(token)
        return x + 1

    with pytest.raises(framejit.GraphBreakError):
        f(x3())
    assert SCALE.get("unset") == "unset"
