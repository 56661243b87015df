"""What a call changes and puts back may be, in another call, the object that it reads meanwhile."""

from collections import OrderedDict, deque
from types import FunctionType, SimpleNamespace

import pytest
import torch
from torch.nn.utils.stateless import _reparametrize_module

import framejit


def in_a_dictionary(first, second, x):
    kept = first["a"]
    first["a"] = x
    read = second["a"] * 2
    first["a"] = kept
    return read


def in_a_list(first, second, x):
    kept = first[0]
    first[0] = x
    read = second[0] * 2
    first[0] = kept
    return read


def in_a_module(first, second, x):
    with _reparametrize_module(first, {"weight": torch.ones(2, 2)}):
        return second(x)


def by_append(first, second, x):
    first.append(x)
    read = second[-1] * 2
    first.pop()
    return read


def by_insert(first, second, x):
    first.insert(0, x)
    read = second[0] * 2
    del first[0]
    return read


def by_reverse(first, second, x):
    first.reverse()
    read = second[0] * x
    first.reverse()
    return read


def in_place(first, second, x):
    first += [x]
    read = second[-1] * 2
    first.pop()
    return read


def by_setdefault(first, second, x):
    first.setdefault("b", x)
    read = x + len(second)
    first.pop("b")
    return read


def by_update(first, second, x):
    kept = first["a"]
    first.update(a=x)
    read = second["a"] * 2
    first.update(a=kept)
    return read


def by_add(first, second, x):
    first.add(3)
    read = x + len(second)
    first.discard(3)
    return read


def in_an_attribute(first, second, x):
    kept, first.weight = first.weight, x
    read = second.weight * 2
    first.weight = kept
    return read


def in_a_cell(first, second, x):
    kept = first()
    first(x)
    read = second() * 2
    first(kept)
    return read


def in_a_class(first, second, x):
    kept, first.weight = first.weight, 3.0
    read = second.weight * x
    first.weight = kept
    return read


def cell_of_one():
    kept = torch.randn(2)

    def access(*value):
        nonlocal kept
        if value:
            (kept,) = value
        return kept

    return access


@pytest.mark.parametrize(
    "function, make, graphs",
    [
        (by_append, lambda: [torch.randn(2)], 2),
        (by_append, lambda: deque([torch.randn(2)]), 1),  # it breaks
        (by_insert, lambda: [torch.randn(2)], 2),
        (by_reverse, lambda: [torch.randn(2), torch.randn(2)], 2),
        (in_place, lambda: [torch.randn(2)], 2),
        (by_setdefault, lambda: {"a": 1.0}, 2),
        (by_update, lambda: {"a": torch.randn(2)}, 2),
        (by_add, lambda: {1, 2}, None),  # a set that lost an item has another table, how often hangs on what was there
        (in_an_attribute, lambda: SimpleNamespace(weight=torch.randn(2)), 2),
        (in_a_cell, cell_of_one, 2),
        (in_a_class, lambda: type("Holder", (), {"weight": 2.0}), 2),
        (in_a_dictionary, lambda: {"a": torch.randn(2)}, 2),
        (in_a_dictionary, lambda: OrderedDict(a=torch.randn(2)), 2),
        (in_a_list, lambda: [torch.randn(2)], 2),
        (in_a_module, lambda: torch.nn.Linear(2, 2), 2),
    ],
    ids=lambda value: value.__name__ if isinstance(value, FunctionType) and value.__name__ != "<lambda>" else "",
)
def test_what_is_changed_for_a_while_may_be_another(function, make, graphs):
    first, second, x = make(), make(), torch.randn(2)
    compiled = framejit.to_static(function)
    for other in (second, second, first, second):
        assert torch.equal(compiled(first, other, x), function(first, other, x))
    assert len(compiled.graphs) == graphs or (graphs is None and len(compiled.graphs) > 1)
