"""Attributes of tensors: what a subclass answers for, and what lies in a tensor's own dictionary."""

import functools

import pytest
import torch

import framejit
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


def asked(self, name):
    LOG.append(name)
    if name == "colour":
        return "red"
    raise AttributeError(name)


class Hooked:
    __getattr__ = asked


class HookedProperty:
    __getattr__ = asked

    @property
    def colour(self):
        raise AttributeError("none of its own")


PROGRAMS_OWN = {"colour", "missing", "seven", "tag", "kind"}  # of torch's own, those that compare read too


class Observed:
    def __getattribute__(self, name):
        if name in PROGRAMS_OWN:
            LOG.append(name)
        return 7 if name == "seven" else super().__getattribute__(name)


class ObservedAndHooked(Observed):
    __getattr__ = asked


class Described:
    kind = "class"
    shades = ["dark"]
    size = "hidden"

    @property
    def colour(self):
        return self.kind + "'s"

    @functools.cached_property
    def cached(self):
        LOG.append("made")
        return len(self.shades)

    @classmethod
    def of_class(cls):
        return cls.kind

    @staticmethod
    def static():
        return 5

    def method(self):
        return self.kind


def of(base, mixin):
    kind = type(mixin.__name__ + base.__name__, (mixin, base), {})
    value = torch.tensor([0.5, -1.5, 2.0])
    return value.as_subclass(kind) if base is torch.Tensor else kind(value)


READS = {
    "hook": lambda v: v.colour,
    "hook that raises": lambda v: v.missing,
    "hook by name": lambda v: (hasattr(v, "missing"), getattr(v, "missing", 3), getattr(v, "colour")),
    "own": lambda v: v.seven,
    "in the dictionary": lambda v: v.tag,
    "of the class": lambda v: (v.kind, v.shades, v.size),
    "changed in the class": lambda v: v.shades.append("light"),
    "methods of the class": lambda v: (v.method(), v.of_class(), v.static()),
    "cached": lambda v: (v.cached, v.cached),
    "of torch": lambda v: (v.shape, v.dtype, v.requires_grad, v.is_leaf, type(v).__name__),
    "past the hooks": lambda v: object.__getattribute__(v, "tag"),
    "past the hooks, what is not there": lambda v: object.__getattribute__(v, "colour"),
}


def answer(read, v):
    try:
        return read(v)
    except AttributeError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("mixin", [Hooked, HookedProperty, Observed, ObservedAndHooked, Described])
@pytest.mark.parametrize("base", [torch.Tensor, torch.nn.Parameter])
def test_subclass(base, mixin, read):
    def make():
        v = of(base, mixin)
        v.tag = "T"
        return (torch.ones(2), v), {}

    def f(x, v):
        return answer(READS[read], v), x + 1

    LOG.clear()
    # torch asks such a class for __torch_function__ in C code; the property keeps what it made in `__dict__`.
    asked_by_torch = issubclass(mixin, Observed) and read == "of torch"
    breaks = at_least(1) if asked_by_torch or (mixin is Described and read == "cached") else 0
    assert_same_as_eager(f, make=make, graphs=1, breaks=breaks, warm=False)


@pytest.mark.parametrize("name", ["sum", "norm", "unflatten", "relu"])
def test_the_dictionary_comes_before_methods(name):
    """Methods are no data descriptors, so that an attribute of the same name hides them."""

    def make():
        v = torch.ones(3)
        setattr(v, name, "own")
        return (v,), {}

    def f(v):
        return getattr(v, name), v + 1

    assert_same_as_eager(f, make=make, warm=False)


def test_an_attribute_that_hides_a_method_later():
    def f(x):
        return x.relu() if callable(x.relu) else x.relu, x + 1

    x, other = torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0])
    compiled = framejit.to_static(f)
    for _ in range(2):
        assert torch.equal(compiled(x)[0], torch.tensor([1.0, 0.0]))
    x.relu = 5
    assert compiled(x)[0] == 5
    assert torch.equal(compiled(other)[0], torch.tensor([1.0, 0.0]))
    del x.relu
    assert torch.equal(compiled(x)[0], torch.tensor([1.0, 0.0]))
    assert framejit.stats()["captures"] == 2 and framejit.stats()["hits"] == 3


def test_the_dictionary_comes_before_what_the_class_has():
    x = of(torch.Tensor, Described)
    compiled = framejit.to_static(lambda x, y: (x.kind, y + 1))
    seen = [compiled(x, torch.ones(1))[0]]
    x.kind = "own"
    seen.append(compiled(x, torch.ones(1))[0])
    type(x).kind = "other class"
    seen.append(compiled(x, torch.ones(1))[0])
    del x.kind
    seen.append(compiled(x, torch.ones(1))[0])
    assert seen == ["class", "own", "own", "other class"]


def test_hooks_that_a_class_gets_later():
    x = of(torch.Tensor, Described)
    compiled = framejit.to_static(lambda x, y: (getattr(x, "absent", None), y + 1))
    seen = [compiled(x, torch.ones(1))[0]]
    type(x).__getattr__ = lambda self, name: "hook"
    seen.append(compiled(x, torch.ones(1))[0])
    type(x).__getattribute__ = lambda self, name: "all"
    seen.append(compiled(x, torch.ones(1))[0])
    assert seen == [None, "hook", "all"]


def test_slot():
    class Slotted(torch.Tensor):
        __slots__ = ("slot",)

    x = torch.ones(2).as_subclass(Slotted)

    def f(x, y):
        z = y + 1
        return x.slot, z

    compiled = framejit.to_static(f)
    for held in ("one", "other", "other"):
        x.slot = held
        found, y = compiled(x, torch.ones(2))
        assert found == held and torch.equal(y, torch.full((2,), 2.0))
    assert set(framejit.stats()["break_reasons"]) == {"UnsupportedTensor"}
    assert framejit.stats()["graphs"] == 1 and framejit.stats()["hits"] > 0
