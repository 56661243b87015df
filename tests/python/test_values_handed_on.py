"""A value that a function is given decides what it does in each call: what captured code did with one, which nothing
looked at but C code or the interpreter itself, holds for that one alone."""

import collections
import dataclasses
import functools
import itertools
import operator
import random

import pytest
import torch

import framejit

X = torch.ones(2)
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Record:
    v: object
    w: int = 2


def ended(generator, end=next):
    next(generator)
    try:
        end(generator)
    except StopIteration as error:
        return error.value, error.args
    return None


def returning(t):
    yield 1
    return t


def returning_when_thrown_at(t):
    try:
        yield 1
    except KeyError:
        return t


def echo():
    yield (yield 1)


def delegating(t):
    yield (yield from returning(t))


def sent(t):
    generator = echo()
    next(generator)
    return generator.send(t)


def raised_from(t):
    try:
        raise ValueError from t
    except ValueError as error:
        return repr(error.__cause__), error.__suppress_context__


def raised_with(t):
    try:
        raise ValueError(t)
    except ValueError as error:
        return error.args


def asserted(t):
    try:
        assert not X.dim(), t
    except AssertionError as error:
        return error.args


def unpacked(t):
    a, b = t
    return b, a


def written_outside(t):
    global written
    written = t
    return written


def written_nonlocally(t):
    found = 0

    def write():
        nonlocal found
        found = t

    write()
    return found


def defaulted(t):
    def g(q=t):
        return q

    return g()


def suppressed(t):
    class Context:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return t

    try:
        with Context():
            raise KeyError(1)
    except KeyError:
        return "raised"
    return "suppressed"


def of_class(method, use):
    """What `use` makes of an object whose `method` gives what it is given."""

    def run(t):
        return use(type("C", (), {method: lambda self, *args: t})())

    return run


USES = {
    "a cause": raised_from,
    "an argument of an exception": raised_with,
    "a message": asserted,
    "unpacked": unpacked,
    "a global": written_outside,
    "a nonlocal": written_nonlocally,
    "a default": defaulted,
    "what __exit__ gives": suppressed,
    "returned by a generator": lambda t: ended(returning(t)),
    "returned, sent": lambda t: ended(returning(t), lambda generator: generator.send(None)),
    "returned, __next__": lambda t: ended(returning(t), lambda generator: generator.__next__()),
    "returned, thrown at": lambda t: ended(returning_when_thrown_at(t), lambda generator: generator.throw(KeyError())),
    "returned, in a list": lambda t: list(returning(t)),
    "delegated": lambda t: list(delegating(t)),
    "sent": sent,
    "sorted by": lambda t: sorted([3, -1, 2], key=t),
    "sorted in place by": lambda t: [3, -1, 2].sort(key=t),
    "reversed": lambda t: sorted([3, -1, 2], reverse=t),
    "the greatest by": lambda t: max([3, -5, 2], key=t),
    "the greatest or": lambda t: max([], default=t),
    "the lesser": lambda t: min(t, 2),
    "reduced from": lambda t: functools.reduce(lambda a, b: a, [1, 2], t),
    "accumulated from": lambda t: list(itertools.accumulate([1, 2], lambda a, b: a, initial=t)),
    "filled with": lambda t: list(itertools.zip_longest([1, 2], [3], fillvalue=t)),
    "sliced": lambda t: list(itertools.islice([1, 2, 3], t)),
    "chained": lambda t: list(itertools.chain(t, [1])),
    "filtered by": lambda t: list(filter(t, [0, 1, 2])),
    "mapped": lambda t: list(map(str, t)),
    "zipped": lambda t: list(zip(t, [1, 2])),
    "counted from": lambda t: list(enumerate("ab", t)),
    "summed from": lambda t: sum([1, 2], t),
    "a tuple": tuple,
    "a list": list,
    "a frozenset": frozenset,
    "a text": str,
    "a float": float,
    "an integer": int,
    "a truth": bool,
    "bytes": bytes,
    "a range": range,
    "a counter": collections.Counter,
    "a longest deque": lambda t: collections.deque([1, 2, 3], t),
    "a chain map": lambda t: collections.ChainMap({"a": t})["a"],
    "a named tuple": lambda t: Pair(t, 2),
    "a record": lambda t: dataclasses.replace(Record(1), v=t),
    "formatted": lambda t: f"{t} {t!r}",
    "formatted by %": lambda t: "%s" % t,
    "a length": len,
    "rounded": lambda t: round(2.567, t),
    "a power": lambda t: pow(2, t),
    "a remainder": lambda t: divmod(7, t),
    "absolute": abs,
    "a hash": lambda t: hash(t) == hash(t),
    "a type": lambda t: type(t).__name__,
    "an instance": lambda t: isinstance(t, int),
    "a copy": lambda t: t[:],
    "negated": lambda t: not t,
    "and": lambda t: t and 5,
    "or": lambda t: t or 5,
    "chosen": lambda t: t if t is not None else 7,
    "equal": lambda t: t == 1,
    "identical": lambda t: operator.is_(t, None),
    "found": lambda t: t in (1, 2),
    "a key": lambda t: {1: "a", None: "b"}.get(t),
    "an item": lambda t: operator.itemgetter(t)([1, 2, 3]),
    "a place": lambda t: [1, 2, 3][t],
    "a value of a dict": lambda t: dict(a=t),
    "of all keys": lambda t: dict.fromkeys("ab", t),
    "keys": dict.fromkeys,
    "starred": lambda t: [*t],
    "of a set": lambda t: {t, 1},
    "times": lambda t: [1] * t,
    "repeated": lambda t: [t] * 2,
    "a default of next": lambda t: next(iter(()), t),
    "a default of get": lambda t: {}.get(1, t),
    "a default of getattr": lambda t: getattr(X, "absent", t),
    "part of a call": lambda t: functools.partial(lambda a, b=None: (a, b), t)(3),
    "what __bool__ gives": of_class("__bool__", bool),
    "what __len__ gives": of_class("__len__", len),
    "what __str__ gives": of_class("__str__", str),
    "what __hash__ gives": of_class("__hash__", hash),
    "what __index__ gives": of_class("__index__", lambda c: [1, 2, 3][c]),
    "what __float__ gives": of_class("__float__", float),
    "what __eq__ gives": of_class("__eq__", lambda c: c == 3),
    "what __add__ gives": of_class("__add__", lambda c: c + 3),
    "what __contains__ gives": of_class("__contains__", lambda c: 1 in c),
    "what __getitem__ gives": of_class("__getitem__", lambda c: c[0]),
    "what __getattr__ gives": of_class("__getattr__", lambda c: c.absent),
    "what __call__ gives": of_class("__call__", lambda c: c()),
    "what __iter__ gives": of_class("__iter__", list),
    "a dimension": lambda t: X.sum(dim=t),
    "a shape": lambda t: X.reshape(t),
    "data": lambda t: torch.tensor(t),
    "a place in a tensor": lambda t: X[t],
}
VALUES = [
    None, 1, 0, True, False, 2, -1, 1.0, 2.5, "a", "", "ab", b"ab", (1, 2), (2, 1), [1, 2], [3, 4], {1: 2}, {1, 2}, Pair(1, 2), range(3),
    KeyError, ValueError(3), len, abs, int, float, lambda v: -v, X,
]  # fmt: skip
CALLS = 5
SEQUENCES = 14


def outcome(function, value):
    try:
        return repr(function(X, value))
    except Exception as error:
        return repr((type(error), str(error)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
def test_each_call_does_with_its_own_value_as_eager_does(use):
    do = USES[use]

    def f(x, t):
        y = x + 1
        return y, do(t)

    numbers = random.Random(use)
    for _ in range(SEQUENCES):
        framejit.reset()
        compiled = framejit.to_static(f)
        values = [numbers.choice(VALUES) for _ in range(CALLS)]
        for value in [*values, values[0]]:
            assert outcome(compiled, value) == outcome(f, value), (value, values)


def test_what_operators_of_the_program_give():
    class Operand:
        def __add__(self, other):
            return self.answer

        def __eq__(self, other):
            return self.answer

    operand = Operand()

    def f(x):
        y = x + 1
        return y, operand == 3, operand + operand

    compiled = framejit.to_static(f)
    for answer in (True, False, NotImplemented, 1, 2, None, NotImplemented, True):
        operand.answer = answer
        assert outcome(lambda x, _: compiled(x), None) == outcome(lambda x, _: f(x), None), answer


TEXTS = {
    "%": lambda t: "%s" % t,
    "% of a tuple": lambda t: "%s" % (t,),
    "% of bytes": lambda t: b"%a" % t,
    "%, in place": lambda t: operator.imod("%s", t),
    "% by name": lambda t: "%(t)s" % {"t": t},
    "__mod__": lambda t: "%s".__mod__(t),
    "format": "{}".format,
    "f": lambda t: f"{t} {[t]}",
    "str": lambda t: str([t]),
    "of an exception": lambda t: str(KeyError(t)),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_a_tensor_is_that_of_its_data(text):
    write = TEXTS[text]

    def f(x):
        y = x + 1
        return write(y), y

    compiled = framejit.to_static(f)
    for x in (X, X * 2, X):
        assert repr(compiled(x)) == repr(f(x))


def test_a_tuple_of_one_is_itself():
    def f(x, t):
        return x + 1, tuple(t)

    compiled = framejit.to_static(f)
    for t in ((1, 2), (3, 4)):
        assert compiled(X, t)[1] is t
    assert compiled(X, [1, 2])[1] == (1, 2)
