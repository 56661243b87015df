"""What changes between warm calls, while objects stay the same: fields of tensors, functions and classes; sets; aliases."""

import pytest
import torch

import framejit
from support.counts import counting
from support.guarded import Guarded


class Held(torch.nn.Module):
    """A parameter whose fields change while it stays the same object."""

    def __init__(self, rank=2):
        super().__init__()
        self.p = torch.nn.Parameter(torch.arange(64.0).reshape(4, 16) if rank == 2 else torch.ones([2] * rank))

    def forward(self, x):
        return (
            x + self.p.sum(),
            self.p.stride(),
            self.p.dtype,
            self.p.storage_offset(),
            self.p.requires_grad,
            self.p * 2,
        )


def _set_data(data):
    return lambda held: setattr(held.p, "data", data())


FIELDS = {
    "sizes": _set_data(lambda: torch.ones(4, 8)),
    "rank": _set_data(lambda: torch.ones(4, 16, 1)),
    "strides": _set_data(lambda: torch.arange(64.0).reshape(16, 4).t()),
    "offset": _set_data(lambda: torch.arange(80.0)[7:71].reshape(4, 16)),
    "dtype": _set_data(lambda: torch.ones(4, 16, dtype=torch.float64)),
    "half": _set_data(lambda: torch.ones(4, 16, dtype=torch.bfloat16)),
    "more dimensions": _set_data(lambda: torch.ones(2, 1, 2, 1, 4, 1, 4)),
    "requires_grad": lambda held: held.p.requires_grad_(False),
    "class": lambda held: setattr(held.p, "__class__", type("Mine", (torch.nn.Parameter,), {})),
}


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_a_parameter_are_seen_by_warm_calls(field):
    held, x = Held(), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    FIELDS[field](held)
    if field == "class":
        guarded.agrees(x)  # which is not captured
    else:
        guarded.captures(x)
    for _ in range(5):
        guarded.agrees(x)


@pytest.mark.parametrize("rank", [5, 6])
def test_dimensions_that_lie_elsewhere_are_seen_by_warm_calls(rank):
    """LibTorch keeps five dimensions in the tensor."""
    held, x = Held(rank), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    held.p.data = torch.ones([2] * (rank - 1) + [3])
    guarded.captures(x)
    held.p.data = torch.ones([2] * rank)
    for _ in range(3):
        guarded.hits(x)


def test_other_data_of_the_same_kind_is_a_hit():
    held, x = Held(), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for i in range(6):
        held.p.data = torch.full((4, 16), float(i))
        guarded.hits(x)


def test_history_of_a_buffer_is_seen_by_warm_calls():
    """In place, the tensor stays the same object."""
    weight = torch.nn.Parameter(torch.ones(3))
    held = torch.nn.Module()
    held.register_buffer("total", torch.zeros(3))
    guarded = Guarded(lambda x: (x + held.total, held.total.requires_grad, held.total.is_leaf))
    guarded.captures(torch.ones(3))
    for _ in range(5):
        guarded.hits(torch.ones(3))
    held.total.add_(weight)
    guarded.captures(torch.ones(3))
    guarded.hits(torch.ones(3))


def helper():
    return 1


class Named:
    pass


class Meta(type):
    pass


class NamesItself(type):
    __name__ = property(lambda cls: "mine")


class OfMeta(metaclass=Meta):
    pass


WARM_ATTRIBUTES = {
    "code": (lambda x: x + len(helper.__code__.co_name), lambda: setattr(helper, "__code__", (lambda: 2).__code__)),
    "defaults": (lambda x: (x + 1, helper.__defaults__), lambda: setattr(helper, "__defaults__", (1,))),
    "keyword defaults": (lambda x: (x + 1, helper.__kwdefaults__), lambda: setattr(helper, "__kwdefaults__", {"a": 1})),
    "annotations": (
        lambda x: (x + 1, dict(helper.__annotations__)),
        lambda: setattr(helper, "__annotations__", {"a": 1}),
    ),
    "an annotation": (lambda x: (x + 1, dict(helper.__annotations__)), lambda: helper.__annotations__.update(b=2)),
    "first attribute": (lambda x: x + getattr(helper, "mark", 1), lambda: setattr(helper, "mark", 3)),
    "name": (lambda x: (x + 1, Named.__name__), lambda: setattr(Named, "__name__", "Other")),
    "qualified name": (lambda x: (x + 1, Named.__qualname__), lambda: setattr(Named, "__qualname__", "Other.Named")),
    "module": (lambda x: (x + 1, Named.__module__), lambda: setattr(Named, "__module__", "elsewhere")),
    "metaclass": (lambda x: (x + 1, OfMeta.__name__), lambda: setattr(OfMeta, "__class__", NamesItself)),
}


@pytest.fixture
def restored():
    """What the changes above touch, as it was."""
    function = {name: getattr(helper, name) for name in ("__code__", "__defaults__", "__kwdefaults__")}
    named = {name: getattr(Named, name) for name in ("__name__", "__qualname__", "__module__")}
    yield
    for name, value in function.items():
        setattr(helper, name, value)
    helper.__annotations__ = {}
    helper.__dict__.clear()
    for name, value in named.items():
        setattr(Named, name, value)
    OfMeta.__class__ = Meta


@pytest.mark.parametrize("name", WARM_ATTRIBUTES)
def test_attributes_are_seen_by_warm_calls(name, restored):
    function, change = WARM_ATTRIBUTES[name]
    guarded, x = Guarded(function), torch.ones(3)
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    change()
    guarded.captures(x)
    for _ in range(5):
        guarded.agrees(x)


def test_items_of_a_set_are_seen_by_warm_calls():
    numbers = {1, 2, 5}

    def add_all(x):
        for number in numbers:
            x = x * 2 + number
        return x

    guarded, x = Guarded(add_all), torch.ones(3)
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    numbers.remove(2)
    numbers.add(3)
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)


def test_an_alias_is_seen_by_warm_calls():
    held = Held()

    def write(x, y):
        x.add_(1)
        return held.p.detach() * 2 + y

    guarded = Guarded(write)
    one, other = torch.ones(4, 16), torch.ones(4, 16)
    with torch.no_grad():
        guarded.captures(one, other)
        for _ in range(5):
            guarded.hits(one, other)
        for arguments in ((one, one), (held.p, one), (one, held.p), (held.p, held.p)):
            guarded.agrees(*arguments)
            guarded.agrees(*arguments)
        guarded.hits(one, other)


def test_tensors_without_attributes_stay_hits():
    def write(x, y, table):
        x = x.exp()
        framejit.graph_break()
        table["n"] = len(table)  # what is read beside a changed dictionary has to be another one
        return x.mean() + y.sum()

    compiled = framejit.to_static(write)
    compiled(torch.ones(2), torch.ones(2), {"n": 0})
    with counting() as counted:
        for _ in range(200):  # the guards of an entry are rebuilt now and then for what has held so far
            table = {"n": 0}
            assert compiled(torch.ones(2), torch.zeros(2), table) == torch.tensor(1.0).exp()
            assert table == {"n": 1}
    assert counted.captures == counted.fallbacks == 0, counted.as_dict()
    assert counted.hits >= 200
