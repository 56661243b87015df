"""Special methods: operators, containers, truth, comparison, attributes of instances that come from outside."""

from __future__ import annotations

import torch

from .registry import Group

construct = Group("Special methods")


class Dual:
    """A value with its derivative."""

    def __init__(self, value, slope=1.0):
        self.value, self.slope = value, slope

    def __add__(self, other):
        if not isinstance(other, Dual):
            return NotImplemented
        return Dual(self.value + other.value, self.slope + other.slope)

    def __radd__(self, other):
        return Dual(other + self.value, self.slope)

    def __mul__(self, factor):
        return Dual(self.value * factor, self.slope * factor)

    def __iadd__(self, other):
        self.value = self.value + other
        return self

    def __neg__(self):
        return Dual(-self.value, -self.slope)

    def __matmul__(self, other):
        return (self.value * other.value).sum()

    def __eq__(self, other):
        return isinstance(other, Dual) and self.slope == other.slope

    def __lt__(self, other):
        return self.slope < other.slope

    __hash__ = None


class Sequence:
    def __init__(self, items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __delitem__(self, index):
        del self.items[index]

    def __contains__(self, item):
        return any(item is own for own in self.items)

    def __iter__(self):
        return iter(self.items)

    def __reversed__(self):
        return reversed(self.items)

    def __bool__(self):
        return len(self.items) > 1


@construct("operator overloads")
def operator_overloads(x):
    out = Dual(x) + Dual(x.sin(), 2.0) * 3
    return out.value, out.slope, (-out).slope, Dual(x) @ Dual(x)


@construct("reflected operator")
def reflected_operator(x):
    return (1 + Dual(x)).value


@construct("operator that answers NotImplemented")
def operator_that_answers_not_implemented(x):
    try:
        return Dual(x) + "text"
    except TypeError:
        return x + 1


@construct("in-place operator overload")
def in_place_operator_overload(x):
    dual = same = Dual(x)
    dual += 5
    return dual.value, dual is same


@construct("__eq__ and __lt__")
def eq_and_lt(x):
    duals = [Dual(x, 3.0), Dual(x * 2, 1.0)]
    return sorted(duals)[0].value, min(duals).slope, duals[0] == Dual(x, 3.0), duals[0] != duals[1]


@construct("__len__, __getitem__, __setitem__, __delitem__")
def len_getitem_setitem_delitem(x):
    sequence = Sequence([x, x + 1, x + 2])
    sequence[0] = sequence[1] * 2
    del sequence[1]
    return sequence[0] + sequence[-1], len(sequence)


@construct("__contains__, __iter__ and __reversed__")
def contains_iter_and_reversed(x):
    sequence = Sequence([x, x.sin()])
    return [item * 2 for item in sequence], list(reversed(sequence)), x in sequence


@construct("__bool__ decides a branch")
def bool_decides_a_branch(x):
    if Sequence([x]):
        return x
    return x * 2 if Sequence([x, x]) else x * 3


@construct("__len__ decides a branch")
def len_decides_a_branch(x):
    class Empty:
        def __len__(self):
            return 0

    return x + 1 if Empty() else x - 1


@construct("__call__ with keywords")
def call_with_keywords(x):
    class Layer:
        def __call__(self, value, *, scale=1.0):
            return value * scale

    return Layer()(x, scale=3.0) + Layer()(x)


@construct("__index__ and __int__")
def index_and_int(x):
    class Position:
        def __index__(self):
            return 1

        def __int__(self):
            return 7

    return x[Position()] * int(Position()), [10, 20][Position()]


@construct("__hash__ and __eq__ as a dict key")
def hash_and_eq_as_a_dict_key(x):
    table = {Key("a"): x, Key("b"): x * 2}
    return table[Key("b")] + 1, Key("a") in table


class Key:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


@construct("__repr__, __str__ and __format__")
def repr_str_and_format(x):
    class Shape:
        def __repr__(self):
            return "Shape()"

        def __str__(self):
            return "a shape"

        def __format__(self, spec):
            return f"<{spec}>"

    shape = Shape()
    return x + len(str(shape)), repr(shape), f"{shape:wide} {shape!r}"


@construct("__getattribute__")
def getattribute(x):
    return Counting().scale * x


class Counting:
    scale = 2.0

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        return value + 1 if name == "scale" else value


@construct("__missing__ of a dict subclass")
def missing_of_a_dict_subclass(x):
    table = Weights(a=2.0)
    return x * table["a"] + table["none"]


class Weights(dict):
    def __missing__(self, key):
        return float(len(key))


@construct("subclass of list")
def subclass_of_list(x):
    stack = Stack([x])
    stack.append(x + 1)
    return stack.top() * 2, len(stack)


class Stack(list):
    def top(self):
        return self[-1]


class Model:
    def __init__(self):
        self.weight = torch.tensor([1.0, 2.0, 3.0])
        self.calls = 0
        self.history = []

    def step(self, value):
        self.calls += 1
        self.history.append(self.calls)
        return value * self.weight


MODEL = Model()


@construct("method that changes a global instance")
def method_that_changes_a_global_instance(x):
    return MODEL.step(MODEL.step(x)), MODEL.calls


@construct("instance passed as an argument", args=lambda: (torch.tensor([0.5, -1.5, 2.0]), Model()))
def instance_passed_as_an_argument(x, model):
    y = model.step(x)
    model.last = y
    return y + model.calls


@construct("nn.Module with a buffer that it updates", args=lambda: (torch.tensor([0.5, -1.5, 2.0]), Mean()))
def module_with_a_buffer(x, module):
    return module(x) + module(x * 2)


class Mean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.steps = 0

    def forward(self, value):
        self.steps += 1
        self.mean.mul_(0.9).add_(value, alpha=0.1)
        return value - self.mean


@construct("tensor attribute set", make=lambda: (torch.tensor([0.5, -1.5, 2.0]),))
def tensor_attribute_set(x):
    x.tag = "seen"
    y = x.sin()
    y.origin = x.tag
    return y


@construct("a.b is a.c, one object in two attributes")
def one_object_in_two_attributes(x):
    model = Model()
    model.left = model.right = [x]
    model.left.append(x + 1)
    return model.right[1] * 2, model.left is model.right
