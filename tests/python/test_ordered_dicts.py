"""An OrderedDict of the program has an order of its own beside that of dict, which move_to_end changes alone."""

from collections import OrderedDict

import pytest
import torch

import framejit
from support.guarded import Guarded
from support.same_as_eager import assert_same_as_eager


class Own(OrderedDict):
    pass


def moved(kind=OrderedDict, key="a"):
    made = kind(a=1.0, b=2.0, c=3.0)
    made.move_to_end(key)
    return made


READERS = [
    lambda x, d: (x + 1, [key for key in d]),
    lambda x, d: (x + 1, list(d), tuple(d), dict(d), OrderedDict(d)),
    lambda x, d: (x + 1, list(d.keys()), list(d.values())),
    lambda x, d: (x + 1, [item for item in d.items()], next(iter(d.items()))),
    lambda x, d: (x + 1, {key: x * value for key, value in d.items()}),
    lambda x, d: (x + 1, list(OrderedDict.items(d)), list(OrderedDict.__iter__(d))),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", [OrderedDict, Own])
def test_is_read_in_its_own_order(kind, reader):
    assert_same_as_eager(reader, torch.ones(3), moved(kind), graphs=1, breaks=0)
    guarded = Guarded(reader)
    arguments = [(torch.ones(3), made) for made in (moved(kind), kind(a=1.0, b=2.0, c=3.0), moved(kind, "b"))]
    for args in arguments:
        guarded.captures(*args)
        guarded.hits(*args)
    for args in arguments:
        guarded.hits(*args)


def test_is_copied_in_its_own_order():
    assert_same_as_eager(lambda x, d: (x + 1, list(d.copy().items())), torch.ones(3), moved())


@pytest.mark.parametrize("kind", [OrderedDict, Own])
def test_is_moved_between_two_reads(kind):
    def recently_used(x, d):
        for value in d.values():
            x = x * value
        d.move_to_end("b")
        d["new"] = 4.0
        d.move_to_end("new", last=False)
        d.popitem(last=False)
        d["b"] = d.pop("b") + 1
        for key, value in d.items():
            x = x - value
        return x, list(d), list(d.items())

    assert_same_as_eager(recently_used, torch.ones(3), moved(kind), graphs=None, breaks=None, cold_runs=2)


def test_a_move_after_many_calls_is_noticed():
    table = OrderedDict(a=1.0, b=2.0, c=3.0)

    def fn(x):
        for value in table.values():
            x = x * 2 + value
        return x

    guarded, x = Guarded(fn), torch.zeros(3)
    guarded.captures(x)
    for _ in range(50):
        guarded.hits(x)
    table.move_to_end("a")
    guarded.captures(x)
    for _ in range(50):
        guarded.hits(x)
    table.move_to_end("a", last=False)
    guarded.hits(x)


READERS_OF_DICT = [
    lambda x, d: (x + 1, list(dict.keys(d)), x + 2),
    lambda x, d: (x + 1, list(dict.items(d)), x + 2),
    lambda x, d: (x + 1, list(dict.values(d)), x + 2),
    lambda x, d: (x + 1, list(dict.__iter__(d)), x + 2),
    lambda x, d: (x + 1, list(dict.copy(d)), x + 2),
]


@pytest.mark.parametrize("reader", READERS_OF_DICT)
def test_order_of_dict_is_not_guarded_and_breaks(reader):
    x, compiled = torch.ones(3), framejit.to_static(reader)
    for first in "abc":  # the same order of its own each time, and another one of dict
        for _ in range(2):
            made = OrderedDict({first: 0.0}, a=1.0, b=2.0, c=3.0)
            for key in "abc":
                made.move_to_end(key)
            assert str(compiled(x, made)) == str(reader(x, made))
    assert "of a dict subclass of the program" in str(framejit.explain(reader, x, moved()))


def test_an_iterator_of_dict_is_not_taken_for_its_own():
    class Unordered(OrderedDict):
        __iter__ = dict.__iter__

    assert_same_as_eager(
        lambda x, d: (x + 1, [key for key in d], x + 2), torch.ones(3), moved(Unordered), graphs=None, breaks=None
    )


def hidden_item():
    made = OrderedDict(a=1.0, b=2.0)
    dict.__setitem__(made, "hidden", 3.0)
    return made


def missing_item():
    made = OrderedDict(a=1.0, b=2.0)
    dict.__delitem__(made, "a")
    return made


@pytest.mark.parametrize("reader", READERS[:4:3])
def test_changed_by_the_methods_of_dict(reader):
    """The two orders do not have the same keys: nothing is captured of it."""
    x, compiled = torch.ones(3), framejit.to_static(reader)
    for _ in range(2):
        assert str(compiled(x, hidden_item())) == str(reader(x, hidden_item()))
        with pytest.raises(KeyError):
            compiled(x, missing_item())
