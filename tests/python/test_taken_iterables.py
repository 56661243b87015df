"""Functions that iterate over what they are given, or call it, with arguments that log what is asked of them: the result
or the refusal with its words, and all that was asked, in order."""

import collections
import functools
import itertools
import re
import statistics
import types
import unicodedata

import pytest
import torch

import framejit

LOG = []


class Listed:
    def __iter__(self):
        LOG.append("iter")
        return iter([1, 2])


class Indexed:
    def __getitem__(self, index):
        LOG.append(index)
        return [4, 5][index]


class Called:
    def __call__(self, *arguments):
        LOG.append(arguments)
        return arguments[0]


class Count:
    def __index__(self):
        LOG.append("index")
        return 2


def begun():
    LOG.append("begun")
    yield 1
    LOG.append("one")
    yield 2
    LOG.append("two")


def first_of(a, b=1):
    return a


OUTSIDE = [3, 1, 2]
VALUES = {
    "a class": lambda: Listed,
    "a function": lambda: first_of,
    "a function of C": lambda: len,
    "a generator": begun,
    "text": lambda: "ab",
    "a list": lambda: OUTSIDE,
    "lists": lambda: [[1], [2]],
    "a number": lambda: 2,
    "None": lambda: None,
    "listed": Listed,
    "indexed": Indexed,
    "called": Called,
    "a count": Count,
}
NAMES = ("r", "repeat", "func", "initial", "iterable", "key", "start", "fillvalue", "maxlen", "default", "x")
FUNCTIONS = {
    "map": map,
    "zip": zip,
    "filter": filter,
    "enumerate": enumerate,
    "reversed": reversed,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "sum": sum,
    "sorted": sorted,
    "any": any,
    "max": max,
    "next": next,
    "iter": iter,
    "int": int,
    "float": float,
    "isinstance": isinstance,
    "reduce": functools.reduce,
    "partial": functools.partial,
    "deque": collections.deque,
    "Counter": collections.Counter,
    "OrderedDict": collections.OrderedDict,
    "namedtuple": collections.namedtuple,
    "geometric_mean": statistics.geometric_mean,
    "UCD": unicodedata.UCD,
    "GeneratorType": types.GeneratorType,
    "chain.from_iterable": itertools.chain.from_iterable,
    "fromkeys": dict.fromkeys,
    "join": "".join,
    "list.extend": lambda *given, **named: [].extend(*given, **named),
    "list.__init__": lambda *given, **named: [].__init__(*given, **named),
    "tuple.__new__": lambda *given, **named: tuple.__new__(tuple, *given, **named),
    "set.update": lambda *given, **named: set().update(*given, **named),
    "dict.update": lambda *given, **named: {}.update(*given, **named),
}
FROM_ITERTOOLS = (
    "accumulate chain combinations combinations_with_replacement compress cycle dropwhile filterfalse groupby"
)
FROM_ITERTOOLS += " islice pairwise permutations product repeat starmap takewhile tee zip_longest"
FUNCTIONS.update({name: getattr(itertools, name) for name in FROM_ITERTOOLS.split() if hasattr(itertools, name)})


def outcome(call):
    """Text: names of functions and classes, no addresses."""
    LOG.clear()
    try:
        result = call()
    except Exception as error:
        result = type(error), str(error)
    return re.sub("0x[0-9a-f]+", "0x", f"{result} {LOG}")


def tried(call):
    try:
        result = call()
        return list(itertools.islice(result, 5)) if hasattr(result, "__next__") else result
    except Exception as error:
        return type(error).__name__, str(error)


def call_one(x, function, a):
    x = x + 1
    return tried(lambda: function(a())), x


def call_two(x, function, a, b):
    x = x + 1
    return tried(lambda: function(a(), b())), x


def call_three(x, function, a, b, c):
    x = x + 1
    return tried(lambda: function(a(), b(), c())), x


def call_named(x, function, name, value):
    x = x + 1
    return tried(lambda: function(begun(), **{name: value()})), x


def calls():
    """Programs with what they are given, and its names."""
    for a in VALUES:
        yield call_one, (VALUES[a],), a
        for b in VALUES:
            yield call_two, (VALUES[a], VALUES[b]), f"{a}, {b}"
            if b in ("a generator", "text", "a number"):
                for c in ("a generator", "a number", "a function"):
                    yield call_three, (VALUES[a], VALUES[b], VALUES[c]), f"{a}, {b}, {c}"
    for value in VALUES:
        for name in NAMES:
            yield call_named, (name, VALUES[value]), f"{name}={value}"


@pytest.mark.runs_once("texts have addresses of what each run makes")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    for program, given, names in calls():
        framejit.reset()  # a program that is captured too often runs eagerly
        compiled = framejit.to_static(program)
        eager, cold, warm = (
            outcome(lambda run=run: run(torch.ones(1), FUNCTIONS[name], *given))  # noqa: B023
            for run in (program, compiled, compiled)
        )
        assert cold == eager, f"{names}, cold"
        assert warm == eager, f"{names}, warm"
        assert framejit.stats()["captures"] > 0, names


class Made:
    def __init__(self, **named):
        self.named = named


@pytest.mark.parametrize(
    "called", ["".format, list, max, dict, Made, first_of, len, 3, zip, functools.partial(first_of)]
)
def test_keyword_that_is_no_text(called):
    """Some functions of C take it, the others refuse it in words of their own, which differ among Pythons."""

    def program(x, named):
        x = x + 1
        try:
            result = called(**named)
        except TypeError as error:
            result = str(error)
        return result, x

    for named in ({1: 2}, {"a": 1, 2: 3}):
        framejit.reset()
        compiled = framejit.to_static(program)
        eager = program(torch.ones(1), named)
        for _ in range(2):
            assert str(compiled(torch.ones(1), named)) == str(eager)
        assert framejit.stats()["captures"] > 0


def raising(*given):
    raise ValueError(len(given))


def raising_items():
    yield 1
    raise TypeError("of the program's")


@pytest.mark.parametrize(
    "call",
    [
        lambda: functools.reduce(raising, [1, 2]),
        lambda: set(raising_items()),
        lambda: collections.deque(raising_items()),
        lambda: [].extend(raising_items()),
        lambda: list(map(raising, [1])),
        lambda: list(itertools.accumulate([1, 2], raising)),
        lambda: list(itertools.chain(Listed(), raising_items())),
        lambda: "".join(raising_items()),
    ],
)
def test_what_simulated_code_raises_is_no_refusal(call):
    def program(x):
        x = x + 1
        try:
            call()
        except (TypeError, ValueError) as error:
            return x * 2, type(error).__name__, str(error)

    framejit.reset()
    compiled = framejit.to_static(program, full_graph=True)
    for _ in range(2):
        assert str(compiled(torch.ones(1))) == str(program(torch.ones(1)))
    assert framejit.stats()["graphs"] == 1
