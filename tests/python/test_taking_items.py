"""How items are taken out of the program's own iterables: who is asked what, in which order, and how far."""

import functools
import itertools
import math
import operator

import pytest
import torch

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


class Sequence:
    """Its __iter__ gives a native iterator."""

    def __init__(self, *items):
        self.items = list(items)

    def __iter__(self):
        LOG.append("iter")
        return iter(self.items)

    def __len__(self):
        LOG.append("len")
        return len(self.items)


class Generating(Sequence):
    def __iter__(self):
        for item in self.items:
            LOG.append(("give", item))
            yield item


class Iterating(Sequence):
    """Its own iterator, which says how many items to expect (PEP 424)."""

    __len__ = None

    def __iter__(self):
        LOG.append("iter")
        return self

    def __next__(self):
        LOG.append("next")
        if not self.items:
            raise StopIteration
        return self.items.pop()

    def __length_hint__(self):
        LOG.append("hint")
        return 3


class WithoutLength(Sequence):
    def __len__(self):
        raise ValueError("no length")


class WithBadHint(Iterating):
    def __length_hint__(self):
        return "three"


class WithUnknownHint(Iterating):
    def __length_hint__(self):
        raise TypeError


def noted(value):
    LOG.append(value)
    return value


def arguments(*args, **keywords):
    return args, keywords


def unpack_two(items):
    first, second = items
    return first, second


def unpack_three(items):
    first, second, third = items
    return first, second, third


def unpack_with_rest(items):
    first, *rest, last = items
    return first, rest, last


def extended(items):
    target = [0]
    target.extend(items)
    return target


def filled_again(items):
    target = [0]
    target.__init__(items)
    return target


def with_slice_set(items):
    target = [1, 2, 3]
    target[1:2] = items
    target.__setitem__(slice(0, 1), target)
    return target


WAYS = {
    "list": list,
    "tuple": tuple,
    "sorted": sorted,
    "set": set,
    "sum": sum,
    "max": max,
    "max by key": lambda items: max(items, key=lambda item: -noted(item)),
    "min by key": lambda items: min(items, key=noted),
    "any": any,
    "all": all,
    "in": lambda items: 2 in items,
    "in, not found": lambda items: 9 in items,
    "not in": lambda items: 2 not in items,
    "list again": filled_again,
    "star in a list": lambda items: [*items],
    "star in a tuple": lambda items: (*items,),
    "star in a set": lambda items: {*items, 9},
    "star in a call": lambda items: arguments(*items),
    "star in a call with others": lambda items: arguments(1, *items),
    "unpack two": unpack_two,
    "unpack three": unpack_three,
    "unpack with rest": unpack_with_rest,
    "extend": extended,
    "slice set": with_slice_set,
    "join": lambda items: ",".join(map(str, items)),
    "iter": lambda items: list(iter(items)),
    "zip": lambda items: list(zip(items, "abc")),
    "map": lambda items: list(map(noted, items)),
    "filter": lambda items: list(filter(noted, items)),
    "enumerate": lambda items: list(enumerate(items)),
    "permutations": lambda items: list(itertools.permutations(items, 2)),
    "product": lambda items: list(itertools.product(items, "ab")),
    "reduce": lambda items: functools.reduce(lambda a, b: noted(a + b), items),
    "comprehension": lambda items: [noted(item) for item in items],
    "fromkeys": lambda items: dict.fromkeys(items),
}


def caught(take, items):
    try:
        return take(items)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", [Sequence, Generating, Iterating, WithoutLength, WithBadHint, WithUnknownHint])
@pytest.mark.parametrize("way", WAYS)
def test_own_iterable(way, kind):
    take = WAYS[way]

    def f(x):
        items = kind(1, 2, 3)
        y = x.sin()
        return y, caught(take, items), items.items

    assert_same_as_eager(f, torch.ones(3), graphs=None, breaks=None, cold_runs=2)


class Compared:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        LOG.append(self.name)
        return False

    __hash__ = None


@pytest.mark.parametrize("kind", [Sequence, Generating, Iterating])
def test_who_is_asked_in_a_search(kind):
    def f(x):
        items = kind(Compared("first"), Compared("second"))
        y = x.sin()
        return y, Compared("needle") in items

    assert_same_as_eager(f, torch.ones(3), graphs=1, breaks=0)


NOT_ITERABLE = {
    "unpack": lambda: unpack_two(5),
    "unpack with rest": lambda: unpack_with_rest(5),
    "star in a call": lambda: arguments(*5),
    "star in a list": lambda: [*5],
    "star in a set": lambda: {*5},
    "two stars in a dict": lambda: {**5},
    "two stars in a call": lambda: arguments(**5),
    "list": lambda: list(5),
    "join": lambda: "".join(5),
    "slice set": lambda: with_slice_set(5),
    "max": lambda: max(5),
    "next": lambda: next(5),
    "sum": lambda: sum(5),
    "for": lambda: [item for item in 5],
}
WRONG_COUNT = {
    "too few": lambda: unpack_three([1, 2]),
    "too many": lambda: unpack_three((1, 2, 3, 4)),
    "without end": lambda: unpack_two(itertools.count()),
    "too few for the rest": lambda: unpack_with_rest([1]),
    "none for max": lambda: max([]),
    "a default for many": lambda: max(1, 2, default=3),
    "an unknown keyword": lambda: max(1, 2, other=3),
    "no order": lambda: max([1, "a"]),
}
ERRORS = {**NOT_ITERABLE, **WRONG_COUNT}


@pytest.mark.parametrize("name", ERRORS)
def test_error_that_is_caught(name):
    take = ERRORS[name]

    def f(x):
        return x.sin(), caught(lambda items: take(), None)

    assert_same_as_eager(f, torch.ones(3), graphs=None, breaks=None, cold_runs=2)


def test_default_of_max_and_min():
    def f(x):
        return x + 1, max([], default=4), min((), default=None), max([2], default=4), min(3, 1, 2, key=lambda n: -n)

    assert_same_as_eager(f, torch.ones(3))


class Amount:
    def __init__(self, number):
        self.number = number

    def __gt__(self, other):
        LOG.append((self.number, ">", other.number))
        return self.number > other.number

    def __radd__(self, total):
        LOG.append((total, "+", self.number))
        return total + self.number


def given(numbers):
    for number in numbers:
        LOG.append(("give", number))
        yield Amount(number)


def test_what_is_done_with_an_item_comes_before_the_next_is_taken():
    def f(x):
        return x + 1, sum(given((1, 2, 3))), max(given((1, 3, 2))).number

    assert_same_as_eager(f, torch.ones(3))


def test_rest_of_a_generator_after_an_error():
    def f(x):
        numbers = (noted(item) for item in (1, "a", 3))
        total = caught(sum, numbers)
        others = (noted(item) for item in (1, "a", 3))
        return x + 1, total[0], list(numbers), caught(max, others)[0], list(others)

    assert_same_as_eager(f, torch.ones(3))


class Backwards(Sequence):
    def __getitem__(self, at):
        LOG.append(("get", at))
        return self.items[at]


def test_reversed_by_getitem_asks_as_the_loop_goes_on():
    def f(x, items):
        for item in reversed(items):
            LOG.append(("seen", item))
            x = x * item
        return x

    assert_same_as_eager(f, torch.ones(3), Backwards(1, 2, 3), graphs=None, breaks=at_least(1))


def test_reversed_module_list():
    blocks = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def f(x):
        for block in reversed(blocks):
            x = block(x)
        return x

    assert_same_as_eager(f, torch.ones(3))


def test_mapping_of_the_program_is_read_by_its_keys():
    class Mapping:
        def keys(self):
            LOG.append("keys")
            return Sequence("a", "b")

        def __iter__(self):
            raise AssertionError("nothing iterates over the mapping itself")

        def __getitem__(self, key):
            LOG.append(key)
            return key * 2

    def f(x):
        mapping = Mapping()
        return x + 1, arguments(**mapping), {**mapping, "c": 1}, dict(mapping)

    assert_same_as_eager(f, torch.ones(3))


class Mapping:
    def __init__(self, error):
        self.error = error

    def keys(self):
        LOG.append("keys")
        return ["a", "b"]

    def __getitem__(self, key):
        LOG.append(key)
        if self.error and key == "b":
            raise self.error(key)
        return key * 2


@pytest.mark.parametrize(
    "star",
    [
        lambda m: arguments(**m),
        lambda m: arguments(**{"b": 1}, **m),
        lambda m: {**m, "c": 1},
        lambda m: {"b": 1, **m},
        dict,
    ],
)
@pytest.mark.parametrize("error", [None, KeyError, AttributeError, TypeError])
def test_mapping_of_the_program_that_raises(error, star):
    """The interpreter words some of the errors anew: a key that is not there is a keyword that is given twice."""
    mapping = Mapping(error)

    def f(x):
        y = x + 1
        try:
            return star(mapping), y
        except Exception as raised:
            return type(raised).__name__, str(raised), y + 1

    assert_same_as_eager(f, torch.ones(3), graphs=at_least(1), breaks=None, fallbacks=None)


class Longer(torch.nn.Sequential):
    def __len__(self):
        return super().__len__() + LONGER


LONGER = 0


@pytest.mark.parametrize("extra", [1, 0, -1, -2])
def test_reversed_modules_that_say_another_length(extra, monkeypatch):
    """`reversed` ends where an item raises IndexError or StopIteration, as iteration over a sequence does."""
    modules = Longer()
    for name in "01":
        modules.add_module(name, torch.nn.Tanh())
    monkeypatch.setitem(globals(), "LONGER", extra)

    def f(x):
        return [type(module).__name__ for module in reversed(modules)], x + 1

    assert_same_as_eager(f, torch.ones(3), graphs=at_least(1), breaks=None, fallbacks=None)


class Answering:
    """It can be iterated over, and says what operators give."""

    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __eq__(self, other):
        return isinstance(other, Answering) and self.items == other.items

    def __len__(self):
        return len(self.items)

    def __float__(self):
        return 4.0

    def __index__(self):
        return 3


OF_ONE = {
    "eq": lambda a: operator.eq(a, Answering(1, 2)),
    "ne": lambda a: operator.ne(a, Answering(1, 2)),
    "is_": lambda a: operator.is_(a, a),
    "is_not": lambda a: operator.is_not(a, a),
    "truth": lambda a: operator.truth(Answering()),
    "not_": lambda a: operator.not_(Answering()),
    "index": operator.index,
    "contains": lambda a: operator.contains(a, 2),
    "countOf": lambda a: operator.countOf(a, 2),
    "indexOf": lambda a: operator.indexOf(a, 2),
    "length_hint": operator.length_hint,
    "sqrt": math.sqrt,
    "gcd": lambda a: math.gcd(a, 9),
    "fsum": math.fsum,
    "prod": math.prod,
}


@pytest.mark.parametrize("function", OF_ONE)
def test_functions_are_given_the_object_itself(function):
    ask = OF_ONE[function]

    def f(x):
        y = x.sin()
        return y, ask(Answering(1, 2))

    assert_same_as_eager(f, torch.ones(3), graphs=1, breaks=None, cold_runs=2)


@pytest.mark.parametrize("take", [operator.countOf, operator.indexOf, operator.contains])
def test_open_file_is_read_when_the_call_runs(take, tmp_path):
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\nb\n")

    def f(x, file):
        y = x.sin()
        found = [take(file, "b\n")]
        file.seek(0)
        return y, found, take(file, "b\n"), file.read()

    compiled = framejit.to_static(f)
    x = torch.ones(3)
    for _ in range(3):
        with path.open() as file, path.open() as other:
            with counts.counting() as counted:
                ours = compiled(x, file)
            assert ours[1:] == f(x, other)[1:]
        assert counted.graphs or counted.hits
