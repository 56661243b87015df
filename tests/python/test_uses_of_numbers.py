"""All that a program may do with a float out of a tensor: what the graph does not compute goes on in the interpreter,
with the number that eager has."""

import array
import cmath
import collections
import contextlib
import copy
import dataclasses
import decimal
import fractions
import functools
import itertools
import json
import math
import numbers
import operator
import pickle
import statistics
import struct
import types

import numpy
import pytest
import torch

from support.same_as_eager import assert_same_as_eager

GIVEN = 0.0


@dataclasses.dataclass
class Record:
    v: float = 0.0


Pair = collections.namedtuple("Pair", "a b")


class Own:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other

    def __hash__(self):
        return hash(self.v)


class Sum:
    def __add__(self, other):
        return "add", other

    def __radd__(self, other):
        return "radd", other


def set_global(n):
    global GIVEN
    GIVEN = n
    return GIVEN


def echo(n):
    got = yield n
    yield got


def sent(n):
    generator = echo(n)
    return next(generator), generator.send(n)


def nonlocal_twice(n):
    def inner():
        nonlocal n
        n = n + 1
        return n

    return inner() + inner()


def arguments(*args, **kwargs):
    return args, kwargs


def keyword_only(n, *, m):
    return n + m


def default(n):
    def inner(a=n):
        return a

    return inner()


def sum_in_a_loop(n):
    total = 0.0
    for _ in range(3):
        total += n
    return total


def while_below(n):
    i = 0
    while n < 10 and i < 5:
        n = n + 1
        i += 1
    return n, i


def division_by_zero(n):
    try:
        return 1 / (n - n)
    except ZeroDivisionError as error:
        return str(error)


def argument_of_an_exception(n):
    try:
        raise ValueError(n)
    except ValueError as error:
        return error.args


def within(n):
    with contextlib.nullcontext(n) as given:
        return given


def sorted_list(n):
    items = [3.0, n, 1.0]
    items.sort()
    return items


def list_methods(n):
    items = [n]
    items.append(n)
    items.extend((n, 2))
    items.insert(0, n)
    return items, items.index(n), items.count(n), len(items), n in items


def dict_of(n):
    table = {n: 1}
    table[n] = 2
    table["k"] = n
    return table, table.get(n), table["k"]


IN_PYTHON = {
    "sum": lambda n, x: sum([n, n, 0.1]),
    "sum of a generator": lambda n, x: sum(t.item() for t in x),
    "sum with a start": lambda n, x: sum([1, 2], n),
    "max": lambda n, x: max(n, 0.1),
    "min": lambda n, x: min([n, 0.1]),
    "abs": lambda n, x: abs(n),
    "round": lambda n, x: (round(n), round(n, 2)),
    "divmod": lambda n, x: divmod(n, 0.3),
    "pow": lambda n, x: (pow(n, 2), n**0.5, 2**n),
    "power that is complex": lambda n, x: (-n)**0.5,
    "int": lambda n, x: int(n),
    "bool": lambda n, x: bool(n),
    "not": lambda n, x: not n,
    "and, or": lambda n, x: (n and 1, n or 2),
    "conditional": lambda n, x: 1 if n else 2,
    "str": lambda n, x: (str(n), repr(n), f"{n}", f"{n:.2f}", "%f" % n, "{}".format(n), format(n, ".3f")),
    "hash": lambda n, x: hash(n),
    "compared": lambda n, x: (n > 1, n < 1, n == 0.5, n != n, 1 < n < 2),
    "is": lambda n, x: (n is None, n is n, n is not None),
    "type": lambda n, x: (type(n), type(n) is float, n.__class__),
    "math": lambda n, x: (math.sin(n), math.floor(n), math.ceil(n), math.isnan(n), math.log(n + 2), math.exp(n)),
    "math of two": lambda n, x: (math.hypot(n, 1), math.fsum([n, 1]), math.isclose(n, 1), math.pow(n, 2), math.copysign(1, n)),
    "sqrt": lambda n, x: math.sqrt(n*n),
    "methods of float": lambda n, x: (n.is_integer(), n.hex(), n.real, n.imag, n.conjugate(), n.as_integer_ratio()),
    "special methods": lambda n, x: (n.__add__(1), n.__float__(), float.__mul__(n, 2), n.__round__()),
    "complex": lambda n, x: (complex(n, 1), n * 1j, n + 1j),
    "floordiv": lambda n, x: (n // 0.3, n % 0.3),
    "sum in a loop": lambda n, x: sum_in_a_loop(n),
    "while": lambda n, x: while_below(n),
    "division by zero": lambda n, x: division_by_zero(n),
    "argument of an exception": lambda n, x: argument_of_an_exception(n),
    "sorted": lambda n, x: sorted([3.0, n, 1.0]),
    "list sorted": lambda n, x: sorted_list(n),
    "methods of a list": lambda n, x: list_methods(n),
    "key and value of a dict": lambda n, x: dict_of(n),
    "set": lambda n, x: ({n, 1.0}, n in {1.0}, frozenset([n])),
    "tuple": lambda n, x: ((n, 1)[0] + 1, (n,) + (n,), (n,1) == (n, 1)),
    "json": lambda n, x: json.dumps({"a": n}),
    "copy": lambda n, x: (copy.copy(n), copy.deepcopy([n])),
    "pickle": lambda n, x: pickle.loads(pickle.dumps(n)),
    "statistics": lambda n, x: statistics.mean([n, 1.0]),
    "Decimal": lambda n, x: decimal.Decimal(n),
    "Fraction": lambda n, x: fractions.Fraction(n),
    "reduce": lambda n, x: functools.reduce(operator.add, [n, n, 1]),
    "accumulate": lambda n, x: list(itertools.accumulate([n, 1, n])),
    "map": lambda n, x: list(map(lambda a: a * 2, [n, 1])),
    "filter": lambda n, x: list(filter(None, [n, 0])),
    "zip": lambda n, x: list(zip([n], [1])),
    "enumerate": lambda n, x: list(enumerate([n])),
    "reversed": lambda n, x: list(reversed([n, 1])),
    "any, all": lambda n, x: (any([n]), all([n])),
    "partial": lambda n, x: functools.partial(operator.add, n)(2),
    "lambda with a default": lambda n, x: (lambda a, b=n: a + b)(n),
    "star arguments": lambda n, x: arguments(n, *[n], k=n, **{"z": n}),
    "keyword-only argument": lambda n, x: keyword_only(n, m=n),
    "dataclass": lambda n, x: (Record(n), Record(n).v + 1, Record(v=n) == Record(n)),
    "namedtuple": lambda n, x: Pair(n, 1),
    "namespace": lambda n, x: types.SimpleNamespace(a=n),
    "compared by an own class": lambda n, x: (Own(n) == n, n == Own(n), Own(1) == n, hash(Own(n))),
    "operator of an own class": lambda n, x: (n + Sum(), Sum() + n),
    "global": lambda n, x: set_global(n),
    "sent to a generator": lambda n, x: sent(n),
    "nonlocal": lambda n, x: nonlocal_twice(n),
    "default": lambda n, x: default(n),
    "context manager": lambda n, x: within(n),
    "numpy": lambda n, x: (numpy.float64(n), numpy.array([n, 1.0]), numpy.add(n, 1)),
    "array": lambda n, x: numpy.ones(2) * n,
    "struct": lambda n, x: struct.pack("d", n),
    "array.array": lambda n, x: array.array("d", [n]),
    "cmath": lambda n, x: cmath.sqrt(n),
    "isinstance": lambda n, x: (isinstance(n, float), isinstance(n, (int, str)), issubclass(type(n), float)),
    "isinstance of an abstract class": lambda n, x: (isinstance(n, numbers.Number), isinstance(n, numbers.Real)),
    "callable": lambda n, x: callable(n),
    "hasattr": lambda n, x: hasattr(n, "real"),
    "getattr": lambda n, x: getattr(n, "real"),
    "range": lambda n, x: range(int(abs(n)) + 2),
    "index": lambda n, x: [1, 2, 3][int(n*0)],
    "list repeated": lambda n, x: [n] * 3,
    "chain": lambda n, x: list(itertools.chain([n], (n,))),
    "unpacked": lambda n, x: [*[n], *(n,)],
    "unpacked in a call": lambda n, x: (lambda a, *b: (a, b))(*[n, n, 1]),
}

IN_TORCH = {
    "tensor": lambda n, x: torch.tensor(n),
    "tensor of a list": lambda n, x: torch.tensor([n, 1.0]),
    "full": lambda n, x: torch.full((2,), n),
    "full_like": lambda n, x: torch.full_like(x, n),
    "scalar_tensor": lambda n, x: torch.scalar_tensor(n),
    "as_tensor": lambda n, x: torch.as_tensor(n),
    "setitem": lambda n, x: operator.setitem(x.clone(), 0, n),
    "fill": lambda n, x: x.clone().fill_(n),
    "arange": lambda n, x: torch.arange(0, abs(n) + 3, 0.5),
    "linspace": lambda n, x: torch.linspace(0, n, 3),
    "clamp": lambda n, x: x.clamp(n, n + 1),
    "power of a tensor": lambda n, x: (x ** n, n ** x, torch.pow(x, n)),
    "remainder": lambda n, x: (x % n, x // n, torch.fmod(x, n)),
    "compared with a tensor": lambda n, x: (x > n, x == n, n < x, torch.eq(x, n)),
    "where": lambda n, x: (torch.where(x > 0, x, n), torch.where(x > 0, n, x)),
    "addmm": lambda n, x: torch.addmm(x.view(1, -1), x.view(1, -1), torch.eye(x.numel()), beta=n, alpha=n),
    "subtracted": lambda n, x: (torch.sub(x, x, alpha=n), n - x, 1 / n - x, n / x, torch.rsub(x, n)),
    "in place": lambda n, x: operator.iadd(x.clone(), n),
    "methods": lambda n, x: (x.mul(n), x.div(n, rounding_mode="floor"), torch.mul(x, n), x.true_divide(n)),
    "maximum": lambda n, x: x.clamp_min(n),
    "norm": lambda n, x: torch.norm(x, n),
    "dropout": lambda n, x: torch.nn.functional.dropout(x, n * 0),
    "leaky_relu": lambda n, x: torch.nn.functional.leaky_relu(x, n),
    "threshold": lambda n, x: torch.nn.functional.threshold(x, n, n),
    "hardtanh": lambda n, x: torch.nn.functional.hardtanh(x, -abs(n), abs(n)),
    "elu": lambda n, x: torch.nn.functional.elu(x, n),
    "celu": lambda n, x: torch.celu(x, 1 + abs(n)),
    "softplus": lambda n, x: torch.nn.functional.softplus(x, 1 + abs(n)),
    "layer_norm": lambda n, x: torch.nn.functional.layer_norm(x, x.shape, eps=abs(n)),
    "addcmul": lambda n, x: torch.addcmul(x, x, x, value=n),
    "lerp": lambda n, x: torch.lerp(x, x*2, n),
    "foreach": lambda n, x: torch._foreach_mul([x, x], n),
    "quant": lambda n, x: torch.quantile(x, abs(n) % 1),
    "normal": lambda n, x: torch.normal(n * 0, 1.0, (0,)),
    "nan_to_num": lambda n, x: torch.nan_to_num(x, nan=n),
    "isclose": lambda n, x: torch.isclose(x, x, rtol=abs(n)),
    "index_fill": lambda n, x: x.index_fill(0, torch.tensor([0]), n),
    "masked_fill": lambda n, x: x.masked_fill(x > 0, n),
    "new_tensor": lambda n, x: x.new_tensor(n),
    "new_full": lambda n, x: x.new_full((2,), n),
    "product with a sum": lambda n, x: x.sum() * n,
    "number of a product": lambda n, x: (x * n).sum().item() + n,
    "mse_loss": lambda n, x: torch.nn.functional.mse_loss(x, x * n),
    "interpolate": lambda n, x: torch.nn.functional.interpolate(x.view(1, 1, -1), scale_factor=abs(n) + 1),
    "pad": lambda n, x: torch.nn.functional.pad(x, (1, 1), value=n),
    "cat": lambda n, x: torch.cat([x, torch.tensor([n])]),
    "stack": lambda n, x: torch.stack([torch.tensor(n), x[0]]),
    "histc": lambda n, x: torch.histc(x, 4, -abs(n) - 1, abs(n)),
    "clip_grad_norm_": lambda n, x: torch.nn.utils.clip_grad_norm_([torch.nn.Parameter(x)], n),
    "polar": lambda n, x: torch.polar(x.abs(), x * n),
    "xlogy": lambda n, x: (torch.xlogy(x.abs(), n), torch.atan2(x, x * n), torch.hypot(x, x)),
    "uniform_": lambda n, x: torch.empty(0).uniform_(0, 1 + abs(n)),
    "normal_": lambda n, x: torch.empty(3).normal_(0, 1e-9 + abs(n) * 0),
    "to": lambda n, x: (x * n).to(torch.float16),
    "half": lambda n, x: x.half() * n,
    "integers": lambda n, x: (x.long() * n, x.long() + n, torch.add(x.long(), 1, alpha=2) * n),
    "bools": lambda n, x: ((x > 0) * n, (x > 0) + n),
    "complex tensor": lambda n, x: x.to(torch.complex64) * n,
    "double": lambda n, x: x.double() * n + n,
    "logit": lambda n, x: torch.special.logit(x.abs().clamp(max=1), abs(n) * 0.01),
    "on both sides": lambda n, x: n * x.sum() * n,
    "returned": lambda n, x: n,
    "returned in a tuple": lambda n, x: (n, x),
    "returned in a dict": lambda n, x: {"n": n, "x": x * n, "l": [n, n]},
    "twice in a tuple": lambda n, x: (lambda t: (t[0] is t[1], t))((n, n)),
}


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


class Counted:
    made = 0

    def __setattr__(self, name, value):
        super().__setattr__(name, (value, self.made))


class Doubled:
    @property
    def v(self):
        return self.given * 2

    @v.setter
    def v(self, value):
        self.given = value


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, n, x):
        self.scale = self.scale * 0.5 + n
        return x * self.scale


def attribute(obj, n):
    obj.v = n
    return obj.v


def state_of(obj, n):
    obj.v = n
    return obj.__dict__


def item_of_a_list(n):
    items = [1, 2, 3]
    items[1] = n
    items[2:] = [n, n]
    del items[0]
    return items


def tail(n):
    head, *rest = [1, n, n]
    return head, rest


def popped(n):
    table = {"a": n, "b": [n]}
    return table.pop("a") + 1, table.setdefault("c", n), table.popitem(), table


def sorted_long(n):
    items = [5.0, 4.0, 3.0, n, 2.0, 1.0, 6.0, 0.0, -1.0, 8.0, 7.0]
    try:
        items.sort(reverse=True)
    finally:
        LISTS.append(list(items))
    return items, LISTS.pop()


def raised_beside(n):
    items = []
    try:
        for i in range(3):
            items.append(n * i)
            if i == 2:
                raise KeyError(items[1])
    except KeyError as error:
        return items, error.args


def read_back(n):
    items = [n * i for i in range(4)]
    total = 0.0
    for i, item in enumerate(items):
        total = total + item * i
    return total, items[-1], items[1:3], items[::-1]


def cached(n):
    @functools.lru_cache(maxsize=None)
    def twice(v):
        return v * 2

    return twice(n), twice(n), twice.cache_info()


def deque_of(n):
    items = collections.deque([n, 1], maxlen=3)
    items.append(n)
    items.appendleft(2)
    items.rotate(1)
    return items


def ordered(n):
    table = collections.OrderedDict(a=n, b=1)
    table.move_to_end("a")
    return table, list(table)


def grouped(n):
    table = collections.defaultdict(list)
    table["a"].append(n)
    table["b"].extend([n, n])
    return table


LISTS = []

IN_CONTAINERS = {
    "list": lambda n, x: [n, x],
    "nested": lambda n, x: {"a": [n, (n, {"b": n})]},
    "item of a dict": lambda n, x: x * {"a": n}["a"],
    "list written": lambda n, x: item_of_a_list(n),
    "starred target": lambda n, x: tail(n),
    "methods of a dict": lambda n, x: popped(n),
    "list comprehension": lambda n, x: [a * 2 for a in [n, n]],
    "dict comprehension": lambda n, x: {k: v + 1 for k, v in {"a": n}.items()},
    "set comprehension": lambda n, x: {v for v in [n, n]},
    "tuple of a generator": lambda n, x: tuple(v * 2 for v in (n, 1)),
    "loop over what was made": lambda n, x: read_back(n),
    "sum of a list": lambda n, x: sum([n * i for i in range(4)]),
    "largest of a list": lambda n, x: (max([n, 1.0]), min((n, 1.0)), max([n])),
    "list compared": lambda n, x: ([n] == [n], [n] == [n + 0], (n, 1) < (n, 2), [n] != [1.75]),
    "dict compared": lambda n, x: ({"a": n} == {"a": n}, {"a": n} == {"a": 1.75}),
    "in a list": lambda n, x: (n in [n], 1.75 in [n], n in (1, 2)),
    "long list sorted": lambda n, x: sorted_long(n),
    "sorted by a key": lambda n, x: sorted([n, 1.0, 2.0], key=lambda v: -v),
    "sorted beside": lambda n, x: sorted([("b", n), ("a", n)], key=lambda pair: pair[0]),
    "text of a list": lambda n, x: (str([n]), f"{[n]}", "%s" % [n], repr({"a": n})),
    "hash of a tuple": lambda n, x: (hash((n, 1)), {(n, 1): 2}, (n, 1) in {(1.75, 1)}),
    "copied": lambda n, x: (copy.copy([n]), copy.deepcopy({"a": [n]}), [n][:], {"a": n}.copy(), list((n,)), dict(a=n)),
    "made of pairs": lambda n, x: (dict([("a", n)]), list({"a": n}.items()), list({"a": n}.values())),
    "list of lists": lambda n, x: ([n] + [1], [n] * 2, (n,) + (1,), [*[n], 2], {**{"a": n}, "b": 1}),
    "deque": lambda n, x: deque_of(n),
    "OrderedDict": lambda n, x: ordered(n),
    "defaultdict": lambda n, x: grouped(n),
    "Counter": lambda n, x: collections.Counter(a=n),
    "ChainMap": lambda n, x: collections.ChainMap({"a": n}, {"b": 1})["a"] + 1,
    "itemgetter": lambda n, x: operator.itemgetter(0, 1)([n, 1]),
    "iterators": lambda n, x: (list(itertools.islice([n, 1, n], 2)), list(itertools.product([n], [1])), list(zip([n], "a"))),
    "map with two": lambda n, x: list(map(operator.mul, [n, 2.0], [3.0, n])),
    "reduced": lambda n, x: functools.reduce(lambda a, b: a * b, [n, 2, n]),
    "json of a list": lambda n, x: json.dumps([n, {"a": n}]),
    "pickled list": lambda n, x: pickle.loads(pickle.dumps([n])),
    "numpy of a list": lambda n, x: numpy.array([n, 1.0]),
    "tensor of two": lambda n, x: torch.tensor([[n, 1.0], [2.0, n]]),
    "tuple of a function of torch": lambda n, x: torch.nn.functional.interpolate(x.view(1, 1, -1), scale_factor=[2 + n * 0]),
    "foreach with a list": lambda n, x: torch._foreach_add([x, x], [n, n]),
    "foreach with a tuple": lambda n, x: torch._foreach_addcdiv([x], [x], [x.abs() + 1], (n,)),
    "attribute of an object": lambda n, x: attribute(types.SimpleNamespace(), n) * x,
    "slot": lambda n, x: Slots(n).v + 1,
    "own __setattr__": lambda n, x: state_of(Counted(), n),
    "property": lambda n, x: attribute(Doubled(), n) * x,
    "attribute of a module": lambda n, x: Scaled()(n, x),
    "exception with numbers": lambda n, x: raised_beside(n),
    "lru_cache": lambda n, x: cached(n),
    "namedtuple replaced": lambda n, x: Pair(n, 1)._replace(b=n),
    "namedtuple compared": lambda n, x: (Pair(n, 1) == Pair(n, 1), Pair(n, 1)._asdict(), Pair(n, 1).a * x),
    "dataclass replaced": lambda n, x: dataclasses.replace(Record(1.0), v=n),
    "dataclass in words": lambda n, x: repr(Record(n)),
    "star-arguments": lambda n, x: (lambda *v, **w: [v, w, x * v[0]])(n, *[n], **{"k": n}),
}


def first(x):
    return x[1].item()


def computed(x):
    return x[1].item() * 2 - x[0].item()


@pytest.mark.parametrize("number", [first, computed], ids=["out of a tensor", "computed"])
@pytest.mark.parametrize("name", [*IN_PYTHON, *IN_TORCH, *IN_CONTAINERS])
def test_use(name, number):
    use = {**IN_PYTHON, **IN_TORCH, **IN_CONTAINERS}[name]

    def program(x):
        return use(number(x), x)

    # Eager's own numbers, and no capture once it is warm, wherever the graph ends.
    assert_same_as_eager(program, torch.tensor([0.25, 1.75, -2.0]), graphs=None, breaks=None, miss=None, fallbacks=0)
