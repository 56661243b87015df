"""Numbers, texts and tuples of the program stay the objects that they are: `is` tells them apart from equal ones, and
what passes through a captured function comes out itself."""

import datetime

import pytest
import torch

import framejit
from support.counts import expect_hit


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


# A new object in each call, equal to all others of its kind.
MAKERS = {
    "float": lambda: float("3.25"),
    "nan": lambda: float("nan"),
    "integer": lambda: 10**20 + len("abc"),
    "complex": lambda: complex("1+2j"),
    "text": lambda: "".join(["ab", "c"]),
    "bytes": lambda: b"".join([b"ab", b"c"]),
    "digit": lambda: str(len("abcde")),
    "character": lambda: chr(300 + len("abc")),
    "byte": lambda: bytes(len("a")),
    "tuple": lambda: (len("abc"), float("1.5")),
    "nested": lambda: (0, (float("1.5"), "".join(["ab", "c"]))),
    "range": lambda: range(len("abc"), 999),
    "frozenset": lambda: frozenset([len("abc"), int]),
    "size": lambda: torch.Size([2, 3]),
    "device": lambda: torch.device("cpu"),
    "plain frozenset": lambda: frozenset(["".join(["ab", "c"]), 2]),
}


def leaves(value):
    yield value
    if isinstance(value, slice):
        yield from leaves(value.start)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(key)
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from leaves(item)


def times_inside(value, result):
    """How often the object itself is in the result."""
    return sum(leaf is value for leaf in leaves(result))


PASSAGES = {
    "itself": lambda x, p: (x + 1, p),
    "list": lambda x, p: (x + 1, [p, [p]]),
    "made tuple": lambda x, p: (x + 1, (8, (p, 7))),
    "sorted": lambda x, p: (x + 1, sorted([p], key=str)),
    "joined": lambda x, p: (x + 1, [p] + [1]),
    "unpacked": lambda x, p: (x + 1, [*[p]]),
    "key": lambda x, p: (x + 1, {p: 7}),
    "slice": lambda x, p: (x + 1, slice(p, None)),
    "set": lambda x, p: (x + 1, {p, 3}),
    "frozenset": lambda x, p: (x + 1, frozenset([p, (p, 3)])),
    "across a break": lambda x, p: (framejit.graph_break(), x + 1, p),
    "in a tuple across a break": lambda x, p: [q for q in [(p, 2)] if framejit.graph_break() is None] + [x + 1],
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("passage", PASSAGES)
def test_value_comes_out_itself(passage, make):
    fn, compiled = PASSAGES[passage], framejit.to_static(PASSAGES[passage])
    for call in range(3):
        value, x = MAKERS[make](), x3()
        expected = times_inside(value, fn(x, value))
        assert expected > 0
        assert times_inside(value, compiled(x, value)) == expected, call
    value = MAKERS[make]()
    if make != "nan":
        with expect_hit():
            compiled(x3(), value)


READS = {
    "list": (lambda x, p: (x + 1, [q for q in p]), lambda value: [value, 1]),
    "tuple": (lambda x, p: (x + 1, [q for q in p]), lambda value: (value, 1)),
    "sorted": (lambda x, p: (x + 1, sorted(p, key=str)), lambda value: [1, value]),
    "nested tuple": (lambda x, p: (x + 1, p[1][0]), lambda value: (1, (value,))),
    "items": (lambda x, p: (x + 1, [(v, k) for k, v in p.items()]), lambda value: {value: value}),
    "values": (lambda x, p: (x + 1, max(p.values(), key=str)), lambda value: {1: value}),
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("read", READS)
def test_value_that_is_read_is_the_one_of_the_call(read, make):
    fn, wrap = READS[read]
    compiled = framejit.to_static(fn)
    for call in range(3):
        value, x = MAKERS[make](), x3()
        expected = times_inside(value, fn(x, wrap(value)))
        assert expected > 0
        assert times_inside(value, compiled(x, wrap(value))) == expected, call


COMPARISONS = {
    "is": lambda x, p, q: (x + 1, p is q),
    "is not": lambda x, p, q: (x + 1, p is not q),
    "in a list": lambda x, p, q: (x + 1, any(p is each for each in [1, q])),
    "through a dictionary": lambda x, p, q: (x + 1, {1: p}[1] is q),
    "through a tuple": lambda x, p, q: (x + 1, (p, 1)[0] is (2, q)[1]),
    "both again": lambda x, p, q: (x + 1, p is p, q is q, [p][0] is p),
    "results": lambda x, p, q: (x + 1, (p, q)),
    "across a break": lambda x, p, q: (x + 1, framejit.graph_break(), p is q),
}


def told(result):
    """Which comparisons held; of results, whether the two are one object."""
    last = result[-1]
    return last[0] is last[1] if isinstance(last, tuple) else [r for r in result if isinstance(r, bool)]


@pytest.mark.parametrize("order", [(1, 0, 1, 0), (0, 1, 1, 0)])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_equal_values_are_told_apart(comparison, make, order):
    fn = COMPARISONS[comparison]
    compiled = framejit.to_static(fn)
    for same in order:
        p = MAKERS[make]()
        q, x = p if same else MAKERS[make](), x3()
        assert told(compiled(x, p, q)) == told(fn(x, p, q)), same
    with expect_hit():
        compiled(x3(), p, q)


@pytest.mark.parametrize("items", [lambda key: {key: 1}, lambda key: {key, "other"}], ids=["dict", "set"])
@pytest.mark.parametrize("order", [(1, 0, 1, 0), (0, 1, 1, 0)])
def test_keys_and_items_of_sets_are_told_apart(items, order):
    def fn(x, held, value):
        return x + 1, any(each is value for each in held)

    compiled = framejit.to_static(fn)
    for same in order:
        value = float("3.25")
        held = items(value if same else float("3.25"))
        assert compiled(x3(), held, value)[1] is bool(same)


def test_items_of_two_tuples_are_told_apart():
    def fn(x, p, q):
        return x + 1, p[1] is q[1], p[1]

    compiled = framejit.to_static(fn)
    for same in (1, 0, 1, 0):
        item = float("2.5")
        p, q, x = (1, item), (2, item if same else float("2.5")), x3()
        result = compiled(x, p, q)
        assert result[1] is bool(same) and result[2] is item


def test_attribute_that_each_read_makes_is_told_from_itself():
    def program(x, moment):
        kept = moment.microsecond
        return x + 1, moment.microsecond is moment.microsecond, kept is kept, kept is not moment.microsecond

    compiled = framejit.to_static(program)
    for microsecond in (123456, 123456, 654321):
        moment = datetime.datetime(2020, 1, 1, 0, 0, 0, microsecond)
        assert compiled(x3(), moment)[1:] == program(x3(), moment)[1:] == (False, True, True)


def test_literal_is_told_from_an_equal_value():
    def fn(x, p=None):
        literal = (1, 2.5)
        return x + 1, literal, p is literal

    compiled = framejit.to_static(fn)
    literal = fn(x3())[1]
    for p in (literal, tuple([1, 2.5]), literal, tuple([1, 2.5])):
        assert compiled(x3(), p)[2] is fn(x3(), p)[2] is (p is literal)


def test_value_is_written_itself():
    class Holder:
        pass

    def fn(x, holder, value, values):
        holder.value = value
        values.append((value, 1))
        return x + 1

    compiled, holder, values = framejit.to_static(fn), Holder(), []
    for _ in range(3):
        value = float("1.25")
        compiled(x3(), holder, value, values)
        assert holder.value is value and values.pop()[0] is value


def test_set_with_items_of_the_call_keeps_its_order():
    def fn(x, *words):
        made = {"one", "two", *words, "three"}
        made.discard("two")
        return x + 1, made

    compiled = framejit.to_static(fn)
    for _ in range(3):
        words = ["".join(["wo", "rd", str(i)]) for i in range(20)]
        expected, made = fn(x3(), *words)[1], compiled(x3(), *words)[1]
        assert list(made) == list(expected)
        assert [item for item in made if any(item is word for word in words)] == [
            item for item in expected if any(item is word for word in words)
        ]
        made.add("later"), expected.add("later")
        assert list(made) == list(expected)


@pytest.mark.parametrize("kind", [classmethod, staticmethod, property])
@pytest.mark.parametrize("breaks", [False, True])
def test_descriptor_holds_the_function_of_its_call(kind, breaks):
    def fn(x, number):
        def inner(y):
            """What it says."""
            return y * number

        made = kind(inner)
        if breaks:
            framejit.graph_break()
        held = made.fget if kind is property else made.__func__
        return x + 1, made, inner, held is inner, kind(inner) is made

    compiled = framejit.to_static(fn)
    seen = []
    for number in (2, 3, 2, 4):
        _, made, inner, same, one = compiled(x3(), number)
        held = made.fget if kind is property else made.__func__
        assert type(made) is kind and held is inner and same and not one
        assert held(10) == 10 * number and inner(10) == 10 * number
        eager = fn(x3(), number)[1]
        names = ("__doc__", "__name__", "__qualname__", "__module__", "__isabstractmethod__")
        assert [getattr(made, name, None) for name in names] == [getattr(eager, name, None) for name in names]
        assert all(made is not other for other in seen)
        seen.append(made)


def test_descriptor_with_a_text_and_attributes_of_its_own():
    def fn(x, number):
        def get(self):
            """The getter's."""
            return number

        made = property(get, None, None, "Its own."), staticmethod(get)
        made[1].note = [number]
        framejit.graph_break()
        return x + 1, made

    compiled = framejit.to_static(fn)
    for number in (2, 3, 2):
        own, static = compiled(x3(), number)[1]
        assert own.__doc__ == "Its own." and own.fget(None) == number and own.fset is None
        assert static.note == [number] and static.__func__ is own.fget
