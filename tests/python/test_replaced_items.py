"""Items of the program's dictionaries of a subclass are replaced: the keys and their order stay."""

from collections import OrderedDict, defaultdict

import pytest
import torch

import framejit
from support.same_as_eager import assert_same_as_eager


class Own(OrderedDict):
    pass


def replaced(x, d):
    d["a"] = d["a"] * 2 + x.sum()
    return x * d["a"], d.get("a"), dict(d), list(d.values()), OrderedDict(d)


def put_back(x, d):
    kept = d["a"]
    try:
        d["a"] = x
        inside = d["a"] + x, d.get("a") is x, next(iter(d.values())) is x
    finally:
        d["a"] = kept
    return inside, d["a"] is kept


def named_as_a_method(x, d):
    d["items"] = x + 1
    return d["items"], list(d.items()), d.keys is not None


def seen_in_a_loop(x, d):
    seen = []
    for key, value in d.items():
        seen.append(value)
        d["b"] = x + len(seen)
        d[key] = x * 3
    return seen, list(d.values())


def seen_in_a_view(x, d):
    values = d.values()
    before = list(values)
    d["b"] = x + 1
    return before, list(values), "b" in d, len(d)


def alias(x, d, other):
    d["a"] = x + 1
    return other["a"] + x


@pytest.mark.parametrize("kind", [OrderedDict, Own, lambda **items: defaultdict(list, **items)])
@pytest.mark.parametrize("change", [replaced, put_back, named_as_a_method, seen_in_a_loop, seen_in_a_view])
def test_replaced_item(change, kind):
    def make():
        return (torch.tensor([1.0, 2.0]), kind(b=torch.ones(2), a=torch.zeros(2), items=torch.tensor(3.0))), {}

    assert_same_as_eager(change, make=make)


def test_replaced_item_of_a_dictionary_that_is_another_too():
    compiled = framejit.to_static(alias)
    for same in (True, False, True):
        results = []
        for run in (alias, compiled):
            first, second = OrderedDict(a=torch.zeros(2)), OrderedDict(a=torch.ones(2))
            results.append((run(torch.ones(2), first, first if same else second), first["a"], second["a"]))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(*results))


def test_what_was_put_back_is_written_where_it_came_from_elsewhere():
    def f(x, d, other):
        d["a"] = x
        y = d["a"] + 1
        d["a"] = other
        return y

    compiled = framejit.to_static(f)
    for same in (True, False):
        held = torch.zeros(2)
        other = held if same else torch.ones(2)
        d = OrderedDict(a=held)
        compiled(torch.ones(2), d, other)
        assert d["a"] is other


def test_replaced_item_in_front_of_a_break():
    def f(x, d):
        d["a"] = x + 1
        framejit.graph_break()
        d["a"] = d["a"] * 2
        return d["a"], list(d)

    def make():
        return (torch.ones(2), OrderedDict(b=0.0, a=torch.zeros(2))), {}

    assert_same_as_eager(f, make=make, graphs=2, breaks=1)


def test_new_item_breaks():
    def f(x, d):
        d["c"] = x + 1
        return list(d), d["c"] * 2

    def make():
        return (torch.ones(2), OrderedDict(b=0.0, a=torch.zeros(2))), {}

    assert_same_as_eager(f, make=make, graphs=None, breaks=None)
    reasons = framejit.explain(f, *make()[0]).stats["break_reasons"]
    assert reasons == {"UnsupportedValue": 1}
