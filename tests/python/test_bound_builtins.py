"""Methods written in C that a lookup binds to a class, another object each time, and that are held across a break."""

import pytest
import torch

import framejit
from support import counts
from support.autograd_functions import Same


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


@pytest.mark.parametrize(
    "method, give",
    [
        (lambda: Same.apply, lambda x: x),
        (lambda: dict.fromkeys, lambda x: ["a"]),
        (lambda: int.from_bytes, lambda x: b"ab"),
        (lambda: Same.mro, lambda x: None),
    ],
    ids=["apply", "fromkeys", "from_bytes", "mro"],
)
def test_c_method_of_a_class_waits_on_the_stack_of_a_break(method, give):
    """A lookup binds it anew each time: what looks it up may be left to the interpreter, as it holds no operator."""
    more = ("big",) if method() == int.from_bytes else ()

    def program(x):
        framejit.graph_break()
        held = method()
        given = [give(x)] if torch.allclose(x, x) else []
        result = held(*[item for item in given if item is not None], *more)
        return result, x + 1, held is method(), held == method()

    compiled = framejit.to_static(program)
    for _ in range(4):
        compiled(x3())
    with counts.counting() as counted:
        result = compiled(x3())
    assert not counted.captures and not counted.fallbacks and counted.hits
    assert str(result) == str(program(x3()))


def test_method_of_the_super_class_is_not_what_the_class_overrides():
    class Base:
        made = []

        @classmethod
        def __init_subclass__(cls, **options):
            held = super().__init_subclass__
            framejit.graph_break()
            held(**options)
            Base.made.append(cls.__name__)

    def program(x, name):
        return x + 1, type(name, (Base,), {})

    framejit.to_static(Base.__init_subclass__.__func__)(Base)
    compiled = framejit.to_static(program)
    for name in ("A", "B", "C"):
        assert compiled(x3(), name)[1].__name__ == name
    assert Base.made[-3:] == ["A", "B", "C"]


@pytest.mark.parametrize("made", ["inside", "outside"])
def test_special_method_of_an_object_is_held_across_a_break(made):
    outside = [1, 2]

    def program(x):
        items = outside if made == "outside" else [3]
        length, more = items.__len__, items.__iadd__
        y = x + 1
        framejit.graph_break()
        more([5])
        return length(), length.__self__ is items, items, y * 2

    compiled = framejit.to_static(program)
    for _ in range(3):
        del outside[2:]
        expected = program(x3())
        del outside[2:]
        with counts.counting() as counted:
            assert str(compiled(x3())) == str(expected)
        assert counted.breaks + counted.hits and not counted.fallbacks
    assert framejit.stats()["graphs"] == 2
