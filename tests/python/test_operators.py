"""Operators on objects of the program: whose method is asked, in which order, and what NotImplemented leads to."""

import collections
import operator

import torch

from support.same_as_eager import assert_same_as_eager

OPEN = {"graphs": None, "breaks": None}


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(program, **options):
    return assert_same_as_eager(program, x3(), **{**OPEN, **options})


class Declines:
    """Its methods give NotImplemented."""

    def __eq__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return "Declines.__radd__"


class Differs(Declines):
    def __ne__(self, other):
        return "Differs.__ne__"


class Reflected:
    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"

    def __rmod__(self, other):
        return "rmod"

    def __ror__(self, other):
        return "ror"

    def __str__(self):
        return "text"


class Smaller:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value


class Number(int):
    def __add__(self, other):
        return "Number.__add__"


class Items(list):
    def __radd__(self, other):
        return "Items.__radd__"


class Layers(collections.ChainMap):
    pass


class Counts:
    def __call__(self, *args):
        return len(args)


class CallableMethod:
    __add__ = Counts()
    __eq__ = lambda self, other: "lambda"  # noqa: E731


def error_of(function, *args):
    try:
        return function(*args)
    except TypeError as error:
        return str(error)


def test_equality_after_not_implemented():
    def program(x):
        a, b = Declines(), Differs()
        return x + 1, [a == b, a != b, b != a, a == 3, 3 == a, a != None, b == b, a != a]  # noqa: E711

    check(program, breaks=0)


def test_a_type_alone_asks_no_reflected_method_of_its_own():
    def program(x):
        return x + 1, error_of(lambda: Declines() + Declines()), 1 + Declines()

    check(program)


def test_reflected_method_first_only_where_a_subclass_overrides_it():
    def program(x):
        plain, layers = collections.ChainMap(), Layers({1: 2})
        return x + 1, type(plain | layers).__name__, type(layers | {3: 4}).__name__

    if hasattr(dict, "__or__"):
        check(program)


def test_ordering():
    def program(x):
        less = Smaller(1) < Smaller(2), Smaller(1) > Smaller(2)
        return x + 1, less, error_of(lambda: Smaller(1) <= Smaller(2))

    check(program, breaks=0)


def test_subclass_of_dict_compared_with_a_dict():
    def program(x):
        c = collections.Counter(a=3, b=2)
        same = {"a": 3, "b": 2}
        return x + 1, c == same, c != same, same == c, c == 5, 5 != c

    check(program)


def test_subclasses_of_builtins():
    def program(x):
        return x + 1, [1] + Items([2]), Items([1]) + [2], Number(3) + 4, 4 + Number(3), Number(3) == 3, 3 == Number(3)

    check(program, warm=False)


def test_reflected_methods_beside_builtins():
    def program(x):
        o = Reflected()
        return x + 1, [1] * o, [1] + o, {1} | o, 2 * o, "a" * o, (1,) + o, 3 + o

    check(program, breaks=0)


def test_formatting_comes_before_a_reflected_remainder():
    def program(x):
        return x + 1, "%s" % Reflected()

    check(program)


def test_in_place_operators_beside_reflected_methods():
    def program(x):
        items, members = [1], {1}
        items += Reflected()
        members |= Reflected()
        return x + 1, items, members

    check(program, breaks=0)


def test_methods_that_are_callable_objects():
    def program(x):
        return x + 1, CallableMethod() + 3, CallableMethod() == 5, 5 == CallableMethod(), CallableMethod() != 5

    check(program, breaks=0)


def test_tensor_beside_a_reflected_method():
    def program(x):
        return x + 1, x + Reflected()

    check(program)


def test_sum_of_floats_is_that_of_the_interpreter():
    def program(x):
        return x + 1, sum([0.1] * 10), sum([1, 2.5, x[0].shape.numel()]), error_of(sum, ["a", "b"], "")

    check(program)


def test_sum_of_tensors_after_numbers():
    def program(x):
        return sum([1, 2.5, x, 3])

    check(program, breaks=0)


def test_function_of_operator_module():
    def program(x):
        return x + 1, operator.add(1, Declines()), operator.eq(Declines(), 3)

    check(program)
