"""Containers that change while something goes over them: the iterator notices, before and after a break."""

from collections import OrderedDict, defaultdict, deque

import pytest
import torch

import framejit
from support.same_as_eager import assert_same_as_eager


class OwnDict(dict):
    pass


class OwnOrderedDict(OrderedDict):
    pass


class OwnList(list):
    pass


def make_defaultdict(items):
    return defaultdict(int, items)


def pairs():
    return [("a", 1), ("b", 2), ("c", 3)]


def nothing():
    pass


def add_key(d, pause):
    seen = []
    for key in d:
        seen.append(key)
        pause()
        d["new", len(seen)] = 1
        if len(seen) > 5:
            break
    return seen


def add_key_while_enumerated(d, pause):
    seen = []
    for i, key in enumerate(d):
        seen.append(key)
        pause()
        if i < 5:
            d["new", i] = 1
    return seen


def add_key_while_zipped(d, pause):
    seen = []
    for key, i in zip(d, range(4)):
        seen.append(key)
        pause()
        d["new", i] = 1
    return seen


def add_key_while_items(d, pause):
    seen = []
    for item in d.items():
        seen.append(item)
        pause()
        d["new", len(seen)] = 1
        if len(seen) > 5:
            break
    return seen


def change_values(d, pause):
    seen = []
    for key, value in d.items():
        d[key] = value * 2
        pause()
        d["c"] = 9
        seen.append((key, value))
    return seen


def remove_while_values(d, pause):
    seen = []
    for value in d.values():
        seen.append(value)
        pause()
        d.pop("c", 0)
    return seen


def swap_keys(d, pause):
    seen = []
    for i, key in enumerate(d):
        seen.append(key)
        del d[key]
        pause()
        d["new", i] = 1
        if len(seen) > 5:
            break
    return seen


def change_before_the_loop(d, pause):
    d["first"] = 0
    seen = []
    for key in d:
        pause()
        seen.append(key)
    return seen


def nothing_changes(d, pause):
    seen = []
    for key, value in d.items():
        pause()
        seen.append((key, value))
    return seen, list(d), list(d.values()), d.copy()


def clear(d, pause):
    seen = []
    for key in d:
        seen.append(key)
        pause()
        d.clear()
    return seen


def view_made_before(d, pause):
    keys, items = d.keys(), d.items()
    pause()
    d["new"] = 1
    return list(keys), list(items)


def reverse(d, pause):
    seen = []
    for key in list(reversed(list(d))):
        pause()
        seen.append(key)
    return seen


def append(items, pause):
    seen = []
    for i, item in enumerate(items):
        seen.append(item)
        pause()
        if len(items) < 7:
            items.append(i)
    return seen


def remove(items, pause):
    seen = []
    for item in items:
        seen.append(item)
        pause()
        items.remove(item)
    return seen


def add_member(members, pause):
    seen = []
    for member in members:
        seen.append(member)
        pause()
        members.add(len(members) + 10)
        if len(seen) > 5:
            break
    return seen


def only_go_over(items, pause):
    seen = []
    for item in items:
        pause()
        seen.append(item)
    return seen


def ask_after_the_end(items, pause):
    iterators = [iter(items)]
    if isinstance(items, dict):
        iterators += [iter(items.items()), iter(items.values())]
    seen = [list(iterator) for iterator in iterators]
    pause()
    return seen, [next(iterator, "none") for iterator in iterators]


OF_DICTS = [
    add_key,
    add_key_while_enumerated,
    add_key_while_zipped,
    add_key_while_items,
    change_values,
    remove_while_values,
    swap_keys,
    change_before_the_loop,
    nothing_changes,
    clear,
    view_made_before,
    reverse,
    ask_after_the_end,
]
CASES = [
    *[(kind, loop) for kind in (dict, OwnDict, OrderedDict, OwnOrderedDict, make_defaultdict) for loop in OF_DICTS],
    *[(kind, loop) for kind in (list, OwnList) for loop in (append, remove, only_go_over, ask_after_the_end)],
    *[(set, loop) for loop in (add_member, remove, only_go_over, ask_after_the_end)],
    *[(deque, loop) for loop in (append, only_go_over, ask_after_the_end)],
]


@pytest.mark.parametrize("pause", [nothing, framejit.graph_break], ids=["whole", "broken"])
@pytest.mark.parametrize("outside", [False, True], ids=["made inside", "made outside"])
@pytest.mark.parametrize("kind, loop", CASES)
def test_loop(kind, loop, outside, pause):
    items = pairs() if loop in OF_DICTS else [1, 2, 3]

    def attempt(x, container):
        y = x.sin()
        try:
            return y, loop(container, pause), container
        except RuntimeError as error:
            return y, str(error), container

    def f(x):
        return attempt(x, kind(items))

    def make():
        return (torch.ones(3), kind(items)), {}

    counts = {"graphs": None, "breaks": None, "cold_runs": 2, "fallbacks": None}
    if outside:
        assert_same_as_eager(attempt, make=make, **counts)
    else:
        assert_same_as_eager(f, torch.ones(3), **counts)


def renew_last(d):
    del d["c"]
    d["c"] = 9


def renew_first(d):
    d["a"] = d.pop("a")


def renew_last_item(d):
    key, value = d.popitem()
    d[key] = value


def renew_all(d):
    items = list(d.items())
    d.clear()
    d.update(items)


def renew_one_by_one(d):
    for key in list(d):
        d[key] = d.pop(key)


def renew_after_clear(d):
    items = list(d.items())
    d.clear()
    d.update(items)
    d["c"] = d.pop("c")


def renew_with_another(d):
    del d["c"]
    d["new"] = 1
    d["c"] = 2
    del d["new"]


def empty_one_by_one(d):
    while d:
        d.popitem()


def give_the_same(d):
    d["c"] = d["c"]
    d.pop("none", None)
    d.update(a=1)


CHANGES = [
    renew_last,
    renew_first,
    renew_last_item,
    renew_all,
    renew_one_by_one,
    renew_after_clear,
    renew_with_another,
    empty_one_by_one,
    give_the_same,
]


TAKEN_BACK = "the eager run is taken back, which makes the table anew"


@pytest.mark.runs_once(TAKEN_BACK)
@pytest.mark.parametrize("view", [dict.keys, dict.values, dict.items])
@pytest.mark.parametrize("change", CHANGES)
def test_iterators_of_the_program_notice_what_a_call_did(change, view):
    @framejit.to_static
    def compiled(x, d):
        change(d)
        return x + 1

    def what_is_left(change_it):
        seen = []
        for first in range(4):
            d = dict(pairs())
            iterators = [iter(view(d)) for _ in range(2)]
            for iterator in iterators:
                for _ in range(first):
                    next(iterator)
            change_it(d)
            for iterator in iterators:
                try:
                    seen.append(list(iterator))
                except RuntimeError as error:
                    seen.append(str(error))
            seen.append(list(d.items()))
        return seen

    x = torch.ones(3)
    expected = what_is_left(change)
    assert what_is_left(lambda d: compiled(x, d)) == expected
    assert what_is_left(lambda d: compiled(x, d)) == expected
    assert compiled.graphs


@pytest.mark.runs_once(TAKEN_BACK)
@pytest.mark.parametrize("holder", ["attributes", "globals"])
def test_iterators_over_a_namespace_notice(holder):
    room = {f"unused{i}": i for i in range(24)}  # for what is put in below, or the table would be made anew
    namespace = {"torch": torch, "__builtins__": __builtins__, **room}
    source = "def change(x, thing, table):\n    global last\n"
    source += "    del thing.last\n    thing.last = 2\n" if holder == "attributes" else "    del last\n    last = 2\n"
    exec(source + "    return x + 1\n", namespace)
    change = namespace["change"]
    compiled = framejit.to_static(change)

    def what_is_left(call):
        class Thing:  # of its own: instances share tables, which change with what one of them loses
            pass

        thing = Thing()
        thing.first = thing.last = 1
        namespace.pop("last", None)
        namespace["last"] = 1
        table = thing.__dict__ if holder == "attributes" else namespace
        iterator = iter(table)
        for _ in range(len(table)):
            next(iterator)
        call(torch.ones(3), thing, table)
        try:
            return list(iterator)
        except RuntimeError as error:
            return str(error)

    expected = what_is_left(change)
    assert "changed" in expected or holder == "attributes"  # those are not always in a table of their own
    assert [what_is_left(compiled) for _ in range(3)] == [expected] * 3
