"""What a graph cannot hold and the trace cannot follow is handed on: the frame has graphs before and behind its use."""

import pytest
import torch

import framejit

SQUARE = torch.arange(4.0).reshape(2, 2)


class Special(torch.Tensor):
    """Its class looks at each operation on it."""

    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


class Key:
    pass


def sparse():
    return SQUARE.to_sparse()


def quantized():
    return torch.quantize_per_tensor(SQUARE, 0.5, 0, torch.qint8)


def special():
    return SQUARE.clone().as_subclass(Special)


def by_key():
    return {Key(): SQUARE, 1: SQUARE + 1}


def large():
    return dict.fromkeys(range(5000), 1.0)


def spmm(a, x):
    h = x * 2 + 1
    h = torch.sparse.mm(a, h)
    return torch.relu(h) - x


def from_attribute(a, x):
    box = framejit_box
    box.a = a
    h = x * 2 + 1
    h = torch.sparse.mm(box.a, h)
    return torch.relu(h) - x


class Box:
    pass


framejit_box = Box()


def inner(a, h):
    h = h + 1
    if a is not None and None is not a:
        h = torch.sparse.mm(a, h)
    return h * 3


def in_a_callee(a, x):
    return inner(a, x * 2) - x


def in_a_loop(a, x):
    for _ in range(3):
        x = torch.sparse.mm(a, x) * 0.5
        x = torch.tanh(x)
    return x


def in_a_try(a, x):
    h = x + 1
    try:
        h = torch.sparse.mm(a, h) * 2
    finally:
        h = h - x
    return h * 2


def in_a_tuple(a, x):
    pair = (a, x * 2)
    h = x + 1
    return torch.sparse.mm(pair[0], h) * 2, pair[1]


def in_keywords(a, x):
    def product(matrix, *, by):
        by = by + 1
        return torch.sparse.mm(matrix, by) * 2

    return product(matrix=a, by=x * 2) - 1


def starred(a, x):
    def product(*args, **words):
        return torch.sparse.mm(args[0], args[1] + 1) * words["scale"]

    return product(a, x * 2, scale=3) - 1


def rescaled(q, x):
    h = x * 2 + 1
    h = h + q.dequantize()
    return torch.relu(h) - x


def of_a_class(t, x):
    h = x * 2 + 1
    t.sum()
    return torch.relu(h) - x


def item_of_dict(d, x):
    h = x * 2 + 1
    h = h + d[1]
    return torch.relu(h) - x


def item_of_attribute(d, x):
    framejit_box.d = d
    h = x * 2 + 1
    h = h + framejit_box.d[1]
    return torch.relu(h) - x


def joined(d, x):
    h = x * 2 + 1
    d = {**d, 2: 2.0}
    return torch.relu(h) - d[2]


PROGRAMS = {
    "spmm": (spmm, sparse, 2),
    "from an attribute": (from_attribute, sparse, 2),
    "in a callee": (in_a_callee, sparse, 2),
    "in a loop": (in_a_loop, sparse, 1),
    "in a try": (in_a_try, sparse, 2),
    "in a tuple": (in_a_tuple, sparse, 2),
    "in keywords": (in_keywords, sparse, 2),
    "starred": (starred, sparse, 2),
    "quantized": (rescaled, quantized, 2),
    "of a class": (of_a_class, special, 2),
    "a dict with objects as keys": (item_of_dict, by_key, 2),
    "a dict with objects as keys, of an object": (item_of_attribute, by_key, 2),
    "a large dict": (item_of_dict, large, 2),
    "a large dict, of an object": (item_of_attribute, large, 2),
    "a large dict, joined": (joined, large, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_on_both_sides(name):
    function, make, graphs = PROGRAMS[name]
    held, x = make(), SQUARE + 0.5
    wanted = function(held, x)
    compiled = framejit.to_static(function)
    torch.testing.assert_close(compiled(held, x), wanted, rtol=0, atol=0)
    assert framejit.stats()["graphs"] >= graphs, framejit.stats()
    captures = framejit.stats()["captures"]
    for _ in range(3):
        torch.testing.assert_close(compiled(held, x), wanted, rtol=0, atol=0)
    assert framejit.stats()["captures"] == captures and framejit.stats()["fallbacks"] == 0, framejit.stats()
    other = make()
    torch.testing.assert_close(compiled(other, x * 2), function(other, x * 2), rtol=0, atol=0)


def test_one_that_is_only_handed_on_needs_no_break():
    def f(a, x):
        y = x + 1
        b = a
        x.product = y
        return b

    a, x = sparse(), torch.ones(2)
    compiled = framejit.to_static(f)
    assert compiled(a, x) is a and compiled(a, x) is a
    assert torch.equal(x.product, torch.full((2,), 2.0))
    assert framejit.stats()["breaks"] == 0 and framejit.stats()["hits"] == 1


class Holder(torch.nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a, self.items, self.table, self.pair = a, [1, a], {"a": a, "b": [a]}, (a, 2)
        self.register_buffer("buffer", a)


def of_a_list(holder, h):
    return torch.sparse.mm(holder.items[1], h)


def of_a_dict(holder, h):
    return torch.sparse.mm(holder.table["b"][0], h)


def of_a_tuple(holder, h):
    a, _ = holder.pair
    return torch.sparse.mm(a, h)


def of_an_attribute(holder, h):
    return torch.sparse.mm(holder.a, h)


def of_a_buffer(holder, h):
    return torch.sparse.mm(holder.buffer, h)


def of_an_object_made_there(holder, h):
    box = Box()
    box.held = [holder.a, {"a": holder.items[1]}]
    a, table = box.held
    return torch.sparse.mm(table["a"], h)


def of_a_closure(holder, h):
    a = holder.a

    def product(by):
        return torch.sparse.mm(a, by)

    return product(h)


def of_defaults(holder, h):
    def product(by, a=holder.a, *rest):
        return torch.sparse.mm(a, by)

    return product(h)


def of_a_generator(holder, h):
    return torch.sparse.mm(next(item for item in holder.items if item is not None and type(item) is not int), h)


def of_a_comprehension(holder, h):
    a, b = [item for item in holder.pair]
    return torch.sparse.mm(a, h)


def of_a_global(holder, h):
    global held_globally
    held_globally = holder.a
    return torch.sparse.mm(held_globally, h)


ONE_BREAK = [of_a_list, of_a_dict, of_a_tuple, of_an_attribute, of_a_buffer, of_an_object_made_there, of_a_closure]
ONE_BREAK += [of_defaults, of_a_comprehension, of_a_global]


# A generator that looks at it is a frame of its own, which breaks there, and its caller with it.
@pytest.mark.parametrize("use, breaks", [(use, 1) for use in ONE_BREAK] + [(of_a_generator, 3)])
def test_only_its_use_breaks_wherever_it_is_held(use, breaks):
    def f(holder, x):
        h = x * 2 + 1
        h = use(holder, h)
        return torch.relu(h) - x

    holder, x = Holder(sparse()), SQUARE + 0.5
    compiled = framejit.to_static(f)
    for _ in range(3):
        assert torch.equal(compiled(holder, x), f(holder, x))
    counted = framejit.stats()
    assert (counted["graphs"], counted["breaks"], counted["fallbacks"]) == (2, breaks, 0), counted
    holder = Holder(torch.sparse.mm(sparse(), sparse()))
    assert torch.equal(compiled(holder, x), f(holder, x))


def test_another_in_its_place():
    """What is handed on is read anew in each call, also where one of another kind takes its place."""
    compiled = framejit.to_static(lambda a, x: (x + 1, a)[1])
    for a in (sparse(), quantized(), special(), SQUARE, None, 3, sparse()):
        assert compiled(a, SQUARE) is a

    def f(a, x):
        h = x + 1
        return h * 2 if a is None else h - 2

    compiled = framejit.to_static(f)
    for a in (sparse(), None, SQUARE, special(), None, sparse()):
        assert torch.equal(compiled(a, SQUARE), f(a, SQUARE))
    assert framejit.stats()["fallbacks"] == 0


def test_two_of_them_are_compared():
    def f(a, b, x):
        h = x + 1
        return h * 2 if a is b else h - 2

    compiled = framejit.to_static(f)
    one, other = sparse(), sparse()
    for a, b in ((one, one), (one, other), (other, other), (other, one)):
        assert torch.equal(compiled(a, b, SQUARE), f(a, b, SQUARE))


def test_super_of_one():
    class Doubled(Special):
        def sum(self):
            return super().sum() * 2

    t, x = SQUARE.clone().as_subclass(Doubled), SQUARE + 1
    compiled = framejit.to_static(of_a_class)
    for _ in range(3):
        assert torch.equal(compiled(t, x), of_a_class(t, x))


def test_containers_that_outgrow_the_limit_while_they_are_made():
    """The stack holds what a comprehension makes: behind a break in it, more than is followed."""

    def f(x):
        y = x + 1
        keys = {i: (print(end="") or i) for i in range(4200)}
        values = {(print(end="") or i) for i in range(4200)}
        return y * 2, len(keys), len(values)

    compiled = framejit.to_static(f)
    for _ in range(2):
        y, keys, values = compiled(SQUARE)
        assert torch.equal(y, (SQUARE + 1) * 2) and (keys, values) == (4200, 4200)


@pytest.mark.parametrize(
    "use",
    [
        lambda d, x: list.append(d, x),
        lambda d, x: dict.update(d, {3: 1}),
        lambda d, x: iter(d).__next__(),
        lambda d, x: (yield_from(d)),
        lambda d, x: d.missing,
        lambda d, x: d(),
        lambda d, x: -d,
        lambda d, x: d + x,
        lambda d, x: sorted(d, key=str)[:2],
        lambda d, x: max(d, key=str),
        lambda d, x: [*map(str, d)][:2],
        lambda d, x: len([*d]),
        lambda d, x: isinstance(d, dict) and type(d) is dict,
        lambda d, x: f"{type(d).__name__}",
        lambda d, x: (lambda **words: words)(**{}, **d),
        lambda d, x: (lambda *words: len(words))(*d),
        lambda d, x: 1 in d,
        lambda d, x: d == 1,
        lambda d, x: x in d,
        lambda d, x: bool(d),
        lambda d, x: d.get(2, x),
        lambda d, x: (lambda: d.get(2))(),
        lambda d, x: [key for key in d][:1] == [],
        lambda d, x: torch.is_tensor(d),
        lambda d, x: torch.add(x, d),
        lambda d, x: setattr(framejit_box, "held", d) or framejit_box.held is d,
        lambda d, x: with_context(d),
        lambda d, x: raise_it(d),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [large, by_key, sparse, special], ids=["large", "keys", "sparse", "special"])
def test_uses_do_as_eager_does(make, use):
    def f(d, x):
        h = x + 1
        try:
            found = use(d, x)
        except Exception as error:
            found = type(error), str(error)
        return h * 2, found

    d, x = make(), torch.tensor([2.0])
    compiled = framejit.to_static(f)
    wanted = f(d, x)
    for _ in range(3):
        y, found = compiled(d, x)
        assert torch.equal(y, wanted[0])
        assert repr(found) == repr(wanted[1])


def yield_from(d):
    def walk():
        yield from d

    return len(list(walk()))


def with_context(d):
    with d as found:
        return found


def raise_it(d):
    raise d


def update_with_keywords(held, x):
    y = x + 1
    return [y, held.update(z=1), y * 2]


def append_with_a_break_in_its_arguments(held, x):
    y = x + 1
    return [y, held.append(print(end="") or y * 2, z=1)]


def append_in_the_arguments_of_a_callee(held, x):
    def twice(y):
        print(end="")
        return y * 2

    y = x + 1
    return [y, held.append(twice(y), z=1)]


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (update_with_keywords, lambda: {Key(), 1}),
        (append_with_a_break_in_its_arguments, list),
        (append_in_the_arguments_of_a_callee, list),
    ],
    ids=lambda item: item.__name__,
)
def test_errors_name_methods_as_eager_does(function, make):
    held = make()
    with pytest.raises(TypeError) as wanted:
        function(held, SQUARE)
    compiled = framejit.to_static(function)
    for _ in range(3):
        with pytest.raises(TypeError) as found:
            compiled(held, SQUARE)
        assert str(found.value) == str(wanted.value)
    framejit.enable_to_static(False)
    with pytest.raises(TypeError) as found:
        compiled(held, SQUARE)
    assert str(found.value) == str(wanted.value)
