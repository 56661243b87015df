"""Every method of the built-in types, every operator between them and every built-in function, with objects from outside
and made in the call, and arguments that fit and that do not: the result or the exception with its text, and what the
object is afterwards."""

import builtins
import collections
import copy
import datetime
import fractions
import itertools
import operator
import re

import pytest
import torch

import framejit
from support.source import define_function


class List(list):
    pass


class Dict(dict):
    pass


class Text(str):
    pass


class Number(int):
    def __radd__(self, other):
        return "radd"

    def __eq__(self, other):
        return "eq"

    def __hash__(self):
        return 5


class Refusing:
    def __radd__(self, other):
        return ("radd",)

    def __eq__(self, other):
        return NotImplemented

    __hash__ = None

    def __lt__(self, other):
        return NotImplemented


Pair = collections.namedtuple("Pair", "a b")
OBJECTS = {
    "list": lambda: [3, 1, 2],
    "dict": lambda: {"a": 1, "b": [2]},
    "set": lambda: {1, 2, 3},
    "frozenset": lambda: frozenset({1, 2}),
    "str": lambda: "a,Bc d",
    "bytes": lambda: b"ab,c",
    "bytearray": lambda: bytearray(b"ab,c"),
    "tuple": lambda: (1, 2, 1),
    "range": lambda: range(1, 9, 2),
    "int": lambda: -5,
    "float": lambda: 2.5,
    "complex": lambda: 1 + 2j,
    "bool": lambda: True,
    "deque": lambda: collections.deque([1, 2, 3], 4),
    "OrderedDict": lambda: collections.OrderedDict(a=1, b=2),
    "Counter": lambda: collections.Counter("aab"),
    "defaultdict": lambda: collections.defaultdict(list, {"a": [1]}),
    "keys": lambda: {"a": 1, "b": 2}.keys(),
    "items": lambda: {"a": 1}.items(),
    "namedtuple": lambda: Pair(1, 2),
    "Size": lambda: torch.Size([2, 3]),
    "exception": lambda: ValueError("a", 1),
    "List": lambda: List([3, 1, 2]),
    "Dict": lambda: Dict(a=1, b=[2]),
    "Text": lambda: Text("a,Bc d"),
}
ARGUMENTS = [(), (1,), ("a",), ("a", 5), (0, 2), ([1, 2],), ({"a": 9},), (b"a",), (None,), ((1, 2),), ({1, 7},)]
# How they are made and copied; what their text tells of addresses and sizes.
LEFT_OUT = set(
    "__class__ __init_subclass__ __subclasshook__ __new__ __dir__ __sizeof__ __reduce__ __reduce_ex__ __getstate__ __hash__"
    " __init__ __getattribute__ __setattr__ __delattr__ __format__ __class_getitem__ __buffer__ __release_buffer__ _asdict".split()
)


def without_addresses(text):
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def shown(value, depth=0):
    """Text with the types of all that it holds; of an iterator with its next items."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple, collections.deque)) and depth < 4:
        return f"{kind}[{', '.join(shown(item, depth + 1) for item in value)}]"
    if isinstance(value, dict) and depth < 4:
        return f"{kind}{{{', '.join(f'{shown(k, depth + 1)}: {shown(v, depth + 1)}' for k, v in value.items())}}}"
    if hasattr(value, "__next__"):
        return f"{kind} of {shown(tried(lambda: list(itertools.islice(value, 6))), depth + 1)}"
    return f"{kind} {without_addresses(repr(value))}"


def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, without_addresses(str(error))


def methods_of(value):
    return sorted(name for name in set(dir(value)) - LEFT_OUT if callable(getattr(value, name)))


def called(make, name, made):
    """A function of (x, arguments, object from outside) that calls the method; it gives the object as well."""

    def call(x, arguments, outside):
        x = x + 1
        subject = make() if made == "inside" else outside
        try:
            result = getattr(subject, name)(*arguments)
        except Exception as error:
            result = type(error).__name__, str(error)
        return result, result is subject, subject, x

    return call


def run(call, make, arguments):
    arguments = copy.deepcopy(arguments)
    outcome = tried(lambda: call(torch.ones(1), arguments, make()))
    return without_addresses(shown([outcome, arguments]))


@pytest.mark.parametrize("made", ["inside", "outside"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_methods(kind, made):
    make, captured = OBJECTS[kind], 0
    for name in methods_of(make()):
        framejit.reset()
        call = called(make, name, made)
        compiled = framejit.to_static(call)
        for arguments in ARGUMENTS:
            eager = run(call, make, arguments)
            assert run(compiled, make, arguments) == eager, f"{name}{arguments}, cold"
            assert run(compiled, make, arguments) == eager, f"{name}{arguments}, warm"
        captured += framejit.stats()["captures"]
    assert captured >= len(methods_of(make()))


# What looks at frames and addresses, reads, writes, compiles or ends the process.
NOT_CALLED = set(
    "print input open exec eval compile breakpoint exit quit help copyright credits license globals locals vars dir id hash"
    " object memoryview super".split()
)
FUNCTIONS = sorted(
    name for name, value in vars(builtins).items() if callable(value) and name.islower() and name[0] != "_"
)
GIVEN = [(), (1,), (2.5,), ("12",), (b"ab",), (None,), ([3, 1, 2],), ({"a": 1},), ({1, 2},), (True,), (1, 2), ("12", 16)]
GIVEN += [([1, 2], [3, 4]), (max, [1, 2]), ({"a": 1}, "a"), (1, 2, 3), ("ab", "a", "z"), (5, (int, str)), ([],), ([1.5, 2], 1)]
NAMED = [{}, {"key": abs}, {"default": 5}, {"reverse": True}, {"start": 1}, {"base": 2}, {"ndigits": 1}]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in NOT_CALLED])
def test_functions(name):
    function = getattr(builtins, name)

    def call(x, arguments, named):
        try:
            result = function(*arguments, **named)
        except Exception as error:
            result = type(error).__name__, str(error)
        return result, arguments, x + 1

    for named in NAMED:
        for given in GIVEN:
            framejit.reset()  # a function that is captured too often runs eagerly
            compiled = framejit.to_static(call)
            eager, cold, warm = (
                shown(tried(lambda run=run: run(torch.ones(1), copy.deepcopy(given), named)))
                for run in (call, compiled, compiled)
            )
            assert cold == eager, f"{given}, {named}, cold"
            assert warm == eager, f"{given}, {named}, warm"
            assert framejit.stats()["captures"] > 0


@pytest.mark.parametrize("given", [(1,), (1, 2), (1, None), (1, {}), ([1], {}), ("a", None, 3), (1, {}, 2, 3)])
def test_arguments_of_deepcopy(given):
    def call(x):
        return tried(lambda: copy.deepcopy(*given)), tried(lambda: copy.deepcopy(5, other=1)), x + 1

    framejit.reset()
    compiled = framejit.to_static(call)
    for _ in range(2):
        assert shown(compiled(torch.ones(1))) == shown(call(torch.ones(1)))
    assert framejit.stats()["captures"] > 0


OPERANDS = {
    "int": 3,
    "negative": -2,
    "float": 2.5,
    "bool": True,
    "complex": 1 + 2j,
    "str": "ab",
    "bytes": b"ab",
    "list": [1, 2],
    "tuple": (1, 2),
    "dict": {"a": 1},
    "set": {1, 2},
    "None": None,
    "range": range(3),
    "refusing": Refusing(),
    "Number": Number(7),
    "fraction": fractions.Fraction(1, 3),
    "timedelta": datetime.timedelta(1),
    "Counter": collections.Counter("aab"),
    "type": int,
    "Size": torch.Size([1, 2]),
    "namedtuple": Pair(1, 2),
}
OPERATIONS = [f"a {sign} b" for sign in "+ - * / // % @ & | ^ < <= == != > >= is in and or".split()] + [
    "a not in b",
    "a[b]",
    "divmod(a, b)",
    "(a,) == (b,)",
    "[a] < [b]",
    "max(a, b)",
    "{a: 1}.get(b)",
    "f'{a}{b}'",
    "a % (b,)",
]
IN_PLACE = [f"{sign}=" for sign in "+ - * / // % & | ^".split()]


def function_of_operations():
    lines = ["def f(x, a, b):", "    x, results = x + 1, []"]
    for operation in OPERATIONS:
        lines += [f"    try: results.append({operation})"]
        lines += ["    except Exception as error: results.append((type(error).__name__, str(error)))"]
    for sign in IN_PLACE:
        lines += ["    c = a", f"    try: c {sign} b; results.append((c is a, c))"]
        lines += ["    except Exception as error: results.append((type(error).__name__, str(error)))"]
    return define_function("\n".join([*lines, "    return results, a, x"]))


def check_operators(left, rights):
    fn = function_of_operations()
    for name, right in rights.items():
        framejit.reset()  # a function that is captured too often runs eagerly
        compiled = framejit.to_static(fn)
        eager, cold, warm = (
            shown(tried(lambda call=call: call(torch.ones(1), copy.copy(left), right))) for call in (fn, compiled, compiled)
        )
        assert cold == eager, f"with {name}, cold"
        assert warm == eager, f"with {name}, warm"
        assert framejit.stats()["captures"] > 0


@pytest.mark.parametrize("left", OPERANDS)
def test_operators(left):
    check_operators(OPERANDS[left], OPERANDS)


@pytest.mark.parametrize("left", ["list", "dict", "set", "tuple", "refusing", "Counter", "float"])
def test_comparison_with_a_number_of_numpy(left):
    """It is a float by its type, and compares itself with anything."""
    numpy = pytest.importorskip("numpy")
    number, other = numpy.float64(1.5), OPERANDS[left]

    def f(x, a, b):
        equal, unequal = a == b, a != b
        return str(equal), str(unequal), type(equal).__name__, str(tried(lambda: operator.lt(a, b))), x + 1

    for a, b in ((number, other), (other, number)):
        framejit.reset()
        compiled, x = framejit.to_static(f), torch.ones(1)
        expected = f(x, a, b)
        for _ in range(2):
            assert str(compiled(x, a, b)) == str(expected)
        assert framejit.stats()["captures"] > 0


@pytest.mark.parametrize("key", [None, (1, 5), (), (None,), "z"])
@pytest.mark.parametrize("kind", [dict, Dict, collections.OrderedDict])
def test_missing_key_is_the_argument_of_its_error(kind, key):
    table = kind(a=1)

    def f(x):
        errors = []
        for look in (lambda: table[key], lambda: table.__getitem__(key), lambda: kind(table)[key]):
            try:
                look()
            except KeyError as error:
                errors.append(error.args)
        return x + 1, errors

    framejit.reset()
    compiled = framejit.to_static(f)
    for _ in range(2):
        assert compiled(torch.ones(1))[1] == [(key,)] * 3
    assert framejit.stats()["captures"] > 0
