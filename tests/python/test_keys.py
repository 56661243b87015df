"""Objects and tensors that C code hashes or compares: those that differ in one call may be one in the next."""

import collections
import functools
import operator

import pytest
import torch
from torch import nn

import framejit


class Thing:
    pass


def _found(look_up):
    try:
        return look_up()
    except KeyError:
        return "no such key"


def deleted(a, b):
    d = {a: 1}
    del d[b]
    return len(d)


def stored(a, b):
    d = {a: 1}
    d[b] = 2
    return d[a], len(d)


def updated(a, b, other):
    d = {a: 1}
    d.update(other(b))
    return d[a], len(d)


def changed(a, b, method):
    s = {a}
    method(s, b)
    return len(s)


def counted(a, b):
    numbers = collections.defaultdict(int)
    numbers[a] += 1
    numbers[b] += 1
    return list(numbers.values())


def in_place(a, b):
    s = {a}
    s |= {b}
    return len(s)


USES = {
    "set display": lambda a, b: len({a, b}),
    "set of a list": lambda a, b: len({*[a, b]}),
    "set comprehension": lambda a, b: len({t for t in (a, b)}),
    "dict comprehension": lambda a, b: len({t: 1 for t in (a, b)}),
    "set()": lambda a, b: len(set([a, b])),  # noqa: C405
    "set() of a generator": lambda a, b: len(set(t for t in (a, b))),  # noqa: C401
    "set() of a map": lambda a, b: len(set(map(lambda t: t, (a, b)))),  # noqa: C417
    "set() of an iterator": lambda a, b: len(set(iter([a, b]))),
    "frozenset()": lambda a, b: len(frozenset([a, b])),
    "dict() of a zip": lambda a, b: len(dict(zip([a, b], [1, 2]))),
    "dict() of pairs": lambda a, b: dict([(a, 1), (b, 2)])[a],  # noqa: C406
    "dict.fromkeys": lambda a, b: len(dict.fromkeys([a, b])),
    "two stars": lambda a, b: len({**{a: 1}, **{b: 2}}),
    "an item": lambda a, b: _found(lambda: {a: 1}[b]),
    "an item deleted": lambda a, b: _found(lambda: deleted(a, b)),
    "an item stored": stored,
    "get": lambda a, b: {a: 1}.get(b),
    "pop": lambda a, b: {a: 1}.pop(b, None),
    "setdefault": lambda a, b: {a: 1}.setdefault(b, 7),
    "update": lambda a, b: updated(a, b, lambda key: {key: 2}),
    "update of pairs": lambda a, b: updated(a, b, lambda key: [(key, 2)]),
    "__contains__": lambda a, b: {a: 1}.__contains__(b),
    "in a set": lambda a, b: b in {a},
    "not in a set": lambda a, b: b not in {a},
    "in a dict": lambda a, b: b in {a: 1},
    "in keys": lambda a, b: b in {a: 1}.keys(),  # noqa: SIM118
    "in items": lambda a, b: (b, 1) in {a: 1}.items(),
    "sets ==": lambda a, b: {a} == {b},
    "sets !=": lambda a, b: {a} != {b},
    "sets <=": lambda a, b: {a} <= {b},
    "sets &": lambda a, b: len({a} & {b}),
    "sets |": lambda a, b: len({a} | {b}),
    "sets -": lambda a, b: len({a} - {b}),
    "sets ^": lambda a, b: len({a} ^ {b}),
    "sets |=": in_place,
    "dicts ==": lambda a, b: {a: 1} == {b: 1},
    "keys &": lambda a, b: len({a: 1}.keys() & {b: 1}.keys()),
    "keys ==": lambda a, b: {a: 1}.keys() == {b: 1}.keys(),
    "sets in tuples ==": lambda a, b: ({a},) == ({b},),
    "a set in a list": lambda a, b: [{a}].count({b}),
    "add": lambda a, b: changed(a, b, lambda s, t: s.add(t)),
    "discard": lambda a, b: changed(a, b, lambda s, t: s.discard(t)),
    "remove": lambda a, b: _found(lambda: changed(a, b, lambda s, t: s.remove(t))),
    "set.update": lambda a, b: changed(a, b, lambda s, t: s.update([t])),
    "intersection_update": lambda a, b: changed(a, b, lambda s, t: s.intersection_update([t])),
    "difference_update": lambda a, b: changed(a, b, lambda s, t: s.difference_update(iter([t]))),
    "union": lambda a, b: len({a}.union([b])),
    "intersection": lambda a, b: len({a}.intersection((b,))),
    "difference": lambda a, b: len({a}.difference([b])),
    "symmetric_difference": lambda a, b: len({a}.symmetric_difference([b])),
    "isdisjoint": lambda a, b: {a}.isdisjoint([b]),
    "isdisjoint of an iterator": lambda a, b: {a}.isdisjoint(iter([b])),
    "issubset": lambda a, b: {a}.issubset((b,)),
    "issuperset": lambda a, b: {a}.issuperset({b}),
    "tuples as keys": lambda a, b: len({(a, 1), (b, 1)}),
    "a tuple as key": lambda a, b: {(a, 1): 3}.get((b, 1)),
    "frozensets as keys": lambda a, b: len({frozenset([a]), frozenset([b])}),
    "OrderedDict": lambda a, b: len(collections.OrderedDict([(a, 1), (b, 2)])),
    "defaultdict": counted,
    "Counter": lambda a, b: sorted(collections.Counter([a, b]).values()),
    "ChainMap": lambda a, b: b in collections.ChainMap({a: 1}),
}


COMPARISONS = {
    "operator.is_": lambda a, b: operator.is_(a, b),
    "operator.is_not": lambda a, b: operator.is_not(a, b),
    "operator.is_ by map": lambda a, b: list(map(operator.is_, [a], [b])),
    "operator.is_ by partial": lambda a, b: sum(map(functools.partial(operator.is_, b), [a])),
    "methods ==": lambda a, b: a.__hash__ == b.__hash__,
}
COMPARISONS_OF_OBJECTS = {
    "operator.contains": lambda a, b: operator.contains([a], b),
    "operator.countOf": lambda a, b: operator.countOf([a], b),
    "operator.indexOf": lambda a, b: operator.indexOf([a, b], b),
    "operator.eq": lambda a, b: operator.eq([a], [b]),
    "operator.ne": lambda a, b: operator.ne((a,), (b,)),
    "list.__eq__": lambda a, b: [a].__eq__([b]),
    "slices ==": lambda a, b: slice(a) == slice(b),
    "lists in lists ==": lambda a, b: [[a]] == [[b]],
    "in a list": lambda a, b: b in [a],
    "count": lambda a, b: [a].count(b),
    "in values": lambda a, b: b in {1: a}.values(),
}
CASES = {
    **{("tensors", name): use for name, use in {**USES, **COMPARISONS}.items()},
    **{("objects", name): use for name, use in {**USES, **COMPARISONS, **COMPARISONS_OF_OBJECTS}.items()},
}


@pytest.mark.parametrize(("kind", "what"), CASES)
def test_what_is_one_object_is_found_to_be(kind, what):
    use = CASES[kind, what]
    one, other = (torch.ones(3), torch.zeros(3)) if kind == "tensors" else (Thing(), Thing())

    def f(a, b, x):
        return use(a, b), x.sin()

    compiled, x = framejit.to_static(f), torch.ones(2)
    for a, b in ((one, other), (one, one), (other, one), (other, other), (one, other)):
        expected, _ = f(a, b, x)
        assert compiled(a, b, x)[0] == expected, (a is b, expected)
    assert framejit.stats()["captures"] >= 2 and framejit.stats()["hits"] >= 1


@pytest.mark.parametrize(
    "name", ["is_", "is_not", "lt", "le", "eq", "ne", "gt", "ge", "contains", "countOf", "indexOf"]
)
def test_functions_of_the_module_operator(name):
    function, x = getattr(operator, name), torch.ones(2)
    takes_container = name in ("contains", "countOf", "indexOf")
    pairs = [([3, 1], 1), ((1,), 2)] if takes_container else [(1, 2), (2, 1), (1, 1), ("a", 1), (x, 0.5)]

    def outcome(call):
        try:
            result = call()
        except Exception as error:
            return type(error), str(error)
        return result.tolist() if isinstance(result, torch.Tensor) else result

    compiled = framejit.to_static(lambda args, x: (function(*args), x.sin()))
    for args in [*pairs, (1,), (1, 2, 3)]:
        assert outcome(lambda: compiled(args, x)[0]) == outcome(lambda: function(*args)), args
    assert framejit.stats()["captures"] >= 3


def test_parameters_that_are_tied_later_are_given_once():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    compiled = framejit.to_static(lambda x: (model(x), len(list(model.parameters()))))
    x = torch.ones(1, 2)
    assert [compiled(x)[1] for _ in range(2)] == [6, 6]
    model[1].weight = model[0].weight
    assert [compiled(x)[1] for _ in range(2)] == [5, 5]
    model[2].weight = model[0].weight
    assert compiled(x)[1] == 4
    torch.testing.assert_close(compiled(x)[0], model(x))
    assert framejit.stats()["captures"] >= 3 and framejit.stats()["hits"] >= 3


def test_as_many_keys_as_there_are():
    """Each of hundreds of tensors is told from each, by a guard for each."""
    tensors = [torch.full((1,), float(i)) for i in range(300)]

    def f(tensors):
        seen = set()
        for tensor in tensors:
            seen.add(tensor)
        return len(seen), tensors[0] + 1

    compiled = framejit.to_static(f)
    assert [compiled(tensors)[0] for _ in range(2)] == [300, 300]
    tensors[299] = tensors[7]
    assert compiled(tensors)[0] == 299
    assert framejit.stats()["breaks"] == 0 and framejit.stats()["captures"] == 2


@pytest.mark.parametrize("use", [lambda s: {s: 1}[s], lambda s: len({s, s}), lambda s: s in {s}, lambda s: len(set([s]) | {s})])
def test_sets_within_sets_are_gone_through_once_each(use):
    """Each number is the set of those before it (von Neumann): as a tree, the 64th has 2 to the 63rd parts."""

    def f(x):
        numbers = [frozenset()]
        for _ in range(64):
            numbers.append(frozenset(numbers))
        return x + use(numbers[-1]), len(numbers[-1])

    compiled = framejit.to_static(f)
    x = torch.ones(2)
    for _ in range(3):
        result, size = compiled(x)
        assert torch.equal(result, f(x)[0]) and size == 64
    assert framejit.stats()["breaks"] == 0 and framejit.stats()["hits"]
