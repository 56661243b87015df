"""Exceptions that captured code makes and that live on after a break: what they hold beside their arguments."""

import sys

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager


class Slotted(Exception):
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


class SlottedBelow(Slotted):
    __slots__ = ("z",)


class SlottedFile(OSError):
    __slots__ = ("x",)


class Counting(type):
    calls = 0

    def __call__(cls, *args):
        Counting.calls += 1
        return super().__call__(*args)


class Counted(Exception, metaclass=Counting):
    pass


class Missing(NameError):
    def __init__(self, name):
        super().__init__(f"no {name}", name) if sys.version_info < (3, 10) else super().__init__(f"no {name}", name=name)


def slots():
    error = Slotted(3)
    error.y = [error]
    return error


def slots_of_a_base():
    error = SlottedBelow("x")
    error.z = error.extra = 5
    return error


def slot_of_an_exception_of_c():
    error = SlottedFile(2, "not there", "file")
    error.x = ("x",)
    return error


def import_error():
    return ImportError("not there", name="n", path="p")


def syntax_error():
    return SyntaxError("wrong", ("file", 3, 4, "text"))


def codes():
    return [SystemExit(), SystemExit(3), SystemExit(3, 4), StopIteration(5), StopIteration()]


def unicode_error():
    return UnicodeDecodeError("utf-8", b"abc", 1, 2, "why")


MAKERS = [slots, slots_of_a_base, slot_of_an_exception_of_c, import_error, syntax_error, codes, unicode_error, lambda: Missing("n")]
FIELDS = "args x y z extra name path msg obj filename filename2 errno strerror lineno offset text code value start reason".split()

if sys.version_info >= (3, 10):
    MAKERS += [lambda: NameError("wrong", name="n"), lambda: AttributeError("wrong", name="n", obj=3)]


def shown(made):
    """Of an exception or a list of them."""
    errors = made if isinstance(made, list) else [made]
    return [[type(error), *(repr(getattr(error, name, "none")) for name in FIELDS)] for error in errors]


@pytest.mark.parametrize("make", MAKERS)
def test_fields_are_there_after_a_break(make):
    def f(x):
        made = make()
        x = x + 1
        framejit.graph_break()
        return x * 2, made

    compiled, x = framejit.to_static(f), torch.ones(2)
    for when in ("cold", "warm"):
        with counting() as counted:
            result, made = compiled(x)
        assert torch.equal(result, (x + 1) * 2)
        assert shown(made) == shown(make()), when
        assert counted.fallbacks == 0 and counted.captures + counted.hits >= 2, counted.as_dict()
    assert_same_as_eager(f, x, graphs=None, breaks=None)


def test_text_of_an_exception_with_slots_is_the_programs():
    class Error(Exception):
        __slots__ = ("x",)

        def __init__(self, x):
            self.x = x

        def __repr__(self):
            return f"Error(x={self.x!r})"

        __str__ = __repr__

    def f(x):
        error = Error(42)
        return x + 1, str(error) == repr(error), str(error)

    assert_same_as_eager(f, torch.ones(2), graphs=None, breaks=None)


def test_class_is_called_once_where_its_metaclass_counts():
    def f(x):
        error = Counted(1)
        x = x + 1
        framejit.graph_break()
        return x, error.args, Counting.calls

    assert_same_as_eager(f, torch.ones(2), graphs=None, breaks=None)
