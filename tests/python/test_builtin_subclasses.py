"""Objects of subclasses of built-in types: which of their methods C code asks, and which it passes over."""

import collections
import functools

import pytest
import torch

from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


def noted(base, name, result):
    def method(self, *args):
        LOG.append(name)
        return getattr(base, name)(self, *args) if result is ... else result

    return method


def hidden(self, name):
    LOG.append(name)
    raise AttributeError(name)


def add_in_place(value, more):
    before = value
    value += more
    return value is before, type(value).__name__


def star_in_front(value):
    first, *rest = value
    return first, rest


def delete_first(value):
    del value[next(iter(dict(value)))]


# What the methods give: `...` is what the base's own gives.
METHODS = {
    "__len__": 1,
    "__iter__": iter(()),
    "__getitem__": ...,
    "__hash__": ...,
    "__add__": "added",
    "__radd__": "added",
    "keys": ["a"],
    "__repr__": "represented",
    "__str__": "text",
    "__next__": 5,
}
CASES = [
    (list, [3, 1, 2], "__len__", lambda v, x: list(zip(v, v))),
    (list, [3, 1, 2], "__len__", lambda v, x: dict(enumerate(v))),
    (list, [3, 1, 2], "__len__", lambda v, x: ([*v], v[-1], v[1:], max(v), sum(v), any(v), len(v))),
    (list, [3, 1, 2], "__len__", lambda v, x: (list(v), sorted(v), tuple(v), star_in_front(v))),
    (list, [3, 1, 2], "__len__", lambda v, x: (functools.reduce(lambda a, b: a + b, v), next(iter(v)))),
    (list, [3, 1, 2], "__len__", lambda v, x: v[7]),
    (list, [3, 1, 2], "__len__", lambda v, x: v.sort()),
    (list, [3, 1, 2], "__iter__", lambda v, x: v.sort()),
    (list, [3, 1, 2], "__iter__", lambda v, x: (3 in v, 9 in v)),
    (list, [3, 1, 2], "__add__", lambda v, x: add_in_place(v, [4])),
    (tuple, (3, 1, 2), "__len__", lambda v, x: ([*v], v[-1], v[1:], max(v), sum(v), sorted(v), tuple(v), len(v))),
    (tuple, (3, 1, 2), "__len__", lambda v, x: (star_in_front(v), list(iter(v)), v[7:])),
    (tuple, (3, 1, 2), "__iter__", lambda v, x: (3 in v, 9 in v)),
    (tuple, (3, 1, 2), "__iter__", lambda v, x: (hash(v) == hash((3, 1, 2)), {v: 1}, v in {(3, 1, 2): 1})),
    (set, {1, 2}, "__iter__", lambda v, x: (set(v), frozenset(v))),
    (frozenset, {1, 2}, "__iter__", lambda v, x: (set(v), frozenset(v), type(frozenset(v)).__name__)),
    (dict, {"a": 1, "b": 2}, "__iter__", lambda v, x: ("a" in v, "z" in v)),
    (dict, {"a": 1, "b": 2}, "__len__", lambda v, x: list(iter(v))),
    (dict, {"a": 1, "b": 2}, "keys", lambda v, x: (dict(v), {**v}, collections.OrderedDict(v))),
    (dict, {"a": 1, "b": 2}, "__getitem__", lambda v, x: (dict(v), {**v}, collections.OrderedDict(v))),
    (collections.OrderedDict, {"a": 1, "b": 2}, "keys", lambda v, x: (dict(v), {**v}, collections.OrderedDict(v))),
    (collections.OrderedDict, {"a": 1, "b": 2}, "__getitem__", lambda v, x: {**v}),
    (collections.OrderedDict, {"a": 1, "b": 2}, "__iter__", lambda v, x: ("a" in v, "z" in v)),
    (collections.Counter, "aab", "__getitem__", lambda v, x: (v["a"], v["z"])),
    (collections.Counter, "aab", "__iter__", lambda v, x: (v + v, v - v, v | v, type(v + v).__name__)),
    (collections.Counter, "aab", "__iter__", lambda v, x: delete_first(v)),
    (collections.deque, [1, 2], "__add__", lambda v, x: add_in_place(v, [4])),
    (int, 5, "__len__", lambda v, x: (bool(v), 1 if v else 2, not v)),
    (float, 2.5, "__len__", lambda v, x: (bool(v), 1 if v else 2, not v)),
    (int, 5, "__radd__", lambda v, x: (x + v, 1 + v)),
    (float, 2.5, "__radd__", lambda v, x: (x + v, 1 + v)),
    (str, "ab", "__hash__", lambda v, x: len(dict(**{v: 1}))),
    (str, "ab", "__repr__", lambda v, x: (str(v), f"{v}", f"{v!s:>4}", "%s" % v, "{}".format(v), format(v, ">4"))),
    (str, "ab", "__repr__", lambda v, x: (repr(v), f"{v!r}", "%r" % v, [v], type(str(v)).__name__)),
    (str, "ab", "__str__", lambda v, x: (str(v), f"{v}", f"{v:>4}", "%s" % v, "".join([v, "c"]), repr(v))),
    (int, 5, "__repr__", lambda v, x: (str(v), f"{v}", f"{v:4}", "%s" % v, "%d" % v, format(v))),
    (complex, 1j, "__str__", lambda v, x: (str(v), f"{v}", f"{v:.1f}", repr(v))),
    (bytes, b"ab", "__str__", lambda v, x: str(v)),
    (bytes, b"ab", "__str__", lambda v, x: f"{v:>4}"),
    (bytes, b"ab", "__repr__", lambda v, x: (repr(v), f"{v!r}")),
    (list, [3, 1], "__str__", lambda v, x: (str(v), f"{v}", repr(v))),
    (list, [3, 1], "__str__", lambda v, x: f"{v:>9}"),
    (str, "ab", "__next__", lambda v, x: (list(v), [c for c in v], next(iter(v)), sorted(v), star_in_front(v))),
    (bytes, b"ab", "__next__", lambda v, x: (list(v), [c for c in v], next(iter(v)), tuple(v))),
    (list, [3, 1], "__next__", lambda v, x: (list(v), [c for c in v], next(iter(v)), dict(enumerate(v)))),
    (dict, {"a": 1}, "__next__", lambda v, x: (list(v), [c for c in v], next(iter(v)), sorted(v))),
    (str, "ab", "__next__", lambda v, x: next(v)),
]


def check_subclass(made, base, value, use, members):
    """Runs `use` with an object from outside, or with one made in the call."""
    kind = type("Kind", (base,), members)
    outside = kind(value)

    def fn(x):
        y = x + 1
        subject = kind(value) if made == "inside" else outside
        try:
            result = use(subject, x)
        except Exception as error:
            result = type(error).__name__, str(error)
        return result, y * 2

    assert_same_as_eager(
        fn, torch.arange(3.0), graphs=at_least(1), breaks=None, fallbacks=None, miss=None, cold_runs=3
    )


@pytest.mark.parametrize("made", ["inside", "outside"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__} {case[2]} {CASES.index(case)}")
def test_methods_that_c_code_asks(case, made):
    base, value, name, use = case
    check_subclass(made, base, value, use, {name: noted(base, name, METHODS[name])})


@pytest.mark.parametrize("made", ["inside", "outside"])
@pytest.mark.parametrize("base", [int, float, str, bytes, tuple, list, dict, set, frozenset, collections.OrderedDict])
def test_attribute_that_getattr_is_asked_for(base, made):
    check_subclass(made, base, base(), lambda v, x: v.missing, {"__getattr__": hidden})


@pytest.mark.parametrize("made", ["inside", "outside"])
@pytest.mark.parametrize("base", [int, float, str, tuple, list, dict, set, object])
def test_vars_of_what_has_no_dictionary(base, made):
    kind = type("Kind", (base,), {"__slots__": ()})
    outside = kind()

    def fn(x):
        y = x + 1
        try:
            vars(kind() if made == "inside" else outside)
        except TypeError as error:
            return y, str(error)

    assert_same_as_eager(fn, torch.arange(3.0), graphs=at_least(1), breaks=None, fallbacks=None, cold_runs=2)
