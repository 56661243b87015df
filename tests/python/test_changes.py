"""What a capture relied on is guarded: after each change of the program's objects the compiled function follows."""

import collections
import dataclasses
import enum
import functools
import itertools
import operator
import types

import pytest
import torch

import framejit

CASES = {}


def case(name, fn, make, *changes):
    """fn(x, state) with state = make(), then after each of `changes`, then after the first of them once more."""
    CASES[name] = (fn, make, changes)


class N:
    pass


def ns(**k):
    o = N()
    o.__dict__.update(k)
    return o


def mkf():
    def f(a=1, *, k=2):
        return a * 10 + k

    return ns(f=f)


def g1():
    return 1


def g2():
    return 2


def mkc():
    class C:
        v = 1

        def m(self):
            return self.v

        @property
        def p(self):
            return 3

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return i

        def __call__(self, y):
            return y + 1

        def __eq__(self, o):
            return True

        __hash__ = None

        def __bool__(self):
            return True

        def __contains__(self, k):
            return k == 1

        def __iter__(self):
            return iter([1, 2])

        def __enter__(self):
            return 1

        def __exit__(self, *a):
            pass

    class D(C):
        pass

    class E:
        v = 8

        def m(self):
            return 80

    return ns(o=D(), C=C, D=D, E=E)


def withs(x, s):
    with s.o as v:
        x = x + v
    return x


NT = collections.namedtuple("NT", "a b")


class Col(enum.Enum):
    R = 1
    G = 2


class ICol(enum.IntEnum):
    R = 1
    G = 2


@dataclasses.dataclass
class DC:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)


def clo():
    v = [1]
    w = 2

    def f(x, s):
        return x + v[0] + w

    def setw(z):
        nonlocal w
        w = z

    return ns(f=f, v=v, setw=setw)


case(
    "defaults",
    lambda x, s: x + s.f(),
    mkf,
    lambda s: setattr(s.f, "__defaults__", (5,)),
    lambda s: s.f.__kwdefaults__.update(k=7),
    lambda s: setattr(s.f, "__kwdefaults__", {"k": 9}),
)
case(
    "class attr",
    lambda x, s: x + s.o.v,
    mkc,
    lambda s: setattr(s.C, "v", 5),
    lambda s: setattr(s.D, "v", 6),
    lambda s: setattr(s.o, "v", 7),
    lambda s: delattr(s.o, "v"),
)
case(
    "method",
    lambda x, s: x + s.o.m(),
    mkc,
    lambda s: setattr(s.C, "m", lambda self: 50),
    lambda s: setattr(s.o, "m", lambda: 70),
)
case(
    "property",
    lambda x, s: x + s.o.p,
    mkc,
    lambda s: setattr(s.C, "p", property(lambda self: 9)),
    lambda s: setattr(s.D, "p", 4),
)
case("len", lambda x, s: x + len(s.o), mkc, lambda s: setattr(s.C, "__len__", lambda self: 9))
case("getitem", lambda x, s: x + s.o[3], mkc, lambda s: setattr(s.C, "__getitem__", lambda self, i: 9))
case("call", lambda x, s: x + s.o(3), mkc, lambda s: setattr(s.C, "__call__", lambda self, i: 9))
case(
    "eq",
    lambda x, s: x + (s.o == 3),
    mkc,
    lambda s: setattr(s.C, "__eq__", lambda self, i: False),
    lambda s: delattr(s.C, "__eq__"),
)
case(
    "bool",
    lambda x, s: x + (1 if s.o else 0),
    mkc,
    lambda s: setattr(s.C, "__bool__", lambda self: False),
    lambda s: delattr(s.C, "__bool__"),
)
case(
    "in",
    lambda x, s: x + (1 in s.o),
    mkc,
    lambda s: setattr(s.C, "__contains__", lambda self, k: False),
    lambda s: delattr(s.C, "__contains__"),
)
case("iter", lambda x, s: x + sum(s.o), mkc, lambda s: setattr(s.C, "__iter__", lambda self: iter([9])))
case("bases", lambda x, s: x + s.o.m(), mkc, lambda s: setattr(s.D, "__bases__", (s.E,)))
case(
    "__class__", lambda x, s: x + s.o.m(), mkc, lambda s: setattr(s.o, "__class__", s.C), lambda s: setattr(s.C, "v", 4)
)
case("with", withs, mkc, lambda s: setattr(s.C, "__enter__", lambda self: 9))
case(
    "getattr hook",
    lambda x, s: x + getattr(s.o, "zz", 1),
    mkc,
    lambda s: setattr(s.C, "__getattr__", lambda self, n: 9),
    lambda s: setattr(s.o, "zz", 3),
)
case("getattribute", lambda x, s: x + s.o.v, mkc, lambda s: setattr(s.C, "__getattribute__", lambda self, n: 9))
case("isinstance", lambda x, s: x + isinstance(s.o, s.E), mkc, lambda s: setattr(s.D, "__bases__", (s.E,)))
case(
    "hasattr cls", lambda x, s: x + hasattr(s.C, "q"), mkc, lambda s: setattr(s.C, "q", 1), lambda s: delattr(s.C, "q")
)
case(
    "list",
    lambda x, s: x + sum(s.l) + len(s.l),
    lambda: ns(l=[1, 2]),
    lambda s: s.l.append(3),
    lambda s: s.l.reverse(),
    lambda s: s.l.__setitem__(0, 9),
)
case(
    "dict iter",
    lambda x, s: (x, list(s.d), list(s.d.values())),
    lambda: ns(d={"a": 1, "b": 2}),
    lambda s: s.d.update(a=s.d.pop("a")),
    lambda s: s.d.update(c=3),
    lambda s: s.d.update(b=8),
)
case("set", lambda x, s: (x, sorted(s.s)), lambda: ns(s={1, 2}), lambda s: s.s.add(5), lambda s: s.s.discard(1))
case(
    "deque",
    lambda x, s: (x, list(s.q), s.q[0]),
    lambda: ns(q=collections.deque([1, 2])),
    lambda s: s.q.append(5),
    lambda s: s.q.popleft(),
)
case(
    "odict",
    lambda x, s: (x, list(s.q)),
    lambda: ns(q=collections.OrderedDict(a=1, b=2)),
    lambda s: s.q.move_to_end("a"),
    lambda s: s.q.update(c=2),
)
case(
    "ddict",
    lambda x, s: (x, s.q["z"], len(s.q)),
    lambda: ns(q=collections.defaultdict(int)),
    lambda s: s.q.update(z=4),
    lambda s: setattr(s.q, "default_factory", list),
    lambda s: s.q.pop("z"),
)
case(
    "counter",
    lambda x, s: (x, s.q["z"], s.q.most_common(1)),
    lambda: ns(q=collections.Counter("aab")),
    lambda s: s.q.update("zzzz"),
)
case(
    "chainmap", lambda x, s: (x, s.q["a"]), lambda: ns(q=collections.ChainMap({}, {"a": 1})), lambda s: s.q.update(a=4)
)
case(
    "namedtuple",
    lambda x, s: (x, s.q.a, sum(s.q), s.q == (1, 2)),
    lambda: ns(q=NT(1, 2)),
    lambda s: setattr(s, "q", NT(1, 3)),
)
case("enum", lambda x, s: (x, s.q.value, s.q is Col.R, s.q.name), lambda: ns(q=Col.R), lambda s: setattr(s, "q", Col.G))
case("intenum", lambda x, s: (x * s.q, s.q + 1, s.q == 1), lambda: ns(q=ICol.R), lambda s: setattr(s, "q", ICol.G))
case(
    "partial",
    lambda x, s: x + s.p(1),
    lambda: ns(p=functools.partial(operator.add, 3)),
    lambda s: setattr(s, "p", functools.partial(operator.add, 5)),
    lambda s: s.p.__setstate__((operator.mul, (7,), {}, {})),
)
case(
    "bound",
    lambda x, s: x + s.m(),
    lambda: (lambda o: ns(m=o.m, o=o))(mkc().D()),
    lambda s: setattr(s.o, "v", 5),
    lambda s: setattr(s, "m", mkc().D().m),
)
case(
    "dataclass",
    lambda x, s: (x, s.d == DC(1, []), repr(s.d), dataclasses.asdict(s.d)),
    lambda: ns(d=DC()),
    lambda s: setattr(s.d, "a", 4),
    lambda s: s.d.b.append(3),
)
case("closure", lambda x, s: s.f(x, s), clo, lambda s: s.v.__setitem__(0, 5), lambda s: s.setw(9))
case(
    "module attr",
    lambda x, s: x + s.m.v + hasattr(s.m, "w"),
    lambda: (lambda m: (setattr(m, "v", 1), ns(m=m))[1])(types.ModuleType("q")),
    lambda s: setattr(s.m, "v", 5),
    lambda s: setattr(s.m, "w", 5),
    lambda s: delattr(s.m, "w"),
)
case(
    "builtin shadow",
    lambda x, s: x + len([1, 2]),
    lambda: ns(),
    lambda s: globals().__setitem__("len", lambda q: 9),
    lambda s: globals().pop("len"),
)
case("slice obj", lambda x, s: (x, [1, 2, 3][s.s]), lambda: ns(s=slice(0, 1)), lambda s: setattr(s, "s", slice(0, 2)))
case("range", lambda x, s: (x, list(s.s)), lambda: ns(s=range(2)), lambda s: setattr(s, "s", range(3)))
case(
    "bytes",
    lambda x, s: (x, s.s[0], len(s.s)),
    lambda: ns(s=bytearray(b"ab")),
    lambda s: s.s.append(3),
    lambda s: s.s.__setitem__(0, 5),
)
case(
    "float",
    lambda x, s: x * s.s,
    lambda: ns(s=0.0),
    lambda s: setattr(s, "s", -0.0),
    lambda s: setattr(s, "s", float("nan")),
    lambda s: setattr(s, "s", 1),
)
case(
    "bool/int",
    lambda x, s: (x * s.s, s.s is True),
    lambda: ns(s=1),
    lambda s: setattr(s, "s", True),
    lambda s: setattr(s, "s", 1.0),
)
case("str", lambda x, s: (x, s.s.upper(), f"{s.s!r:>5}"), lambda: ns(s="a"), lambda s: setattr(s, "s", "b"))
case(
    "nested",
    lambda x, s: x + s.a["k"][0][1],
    lambda: ns(a={"k": [(1, 2)]}),
    lambda s: s.a["k"].__setitem__(0, (1, 5)),
    lambda s: s.a.__setitem__("k", [(3, 7)]),
)
case(
    "identity",
    lambda x, s: (x, s.a is s.b, s.a == s.b),
    lambda: (lambda l: ns(a=l, b=l))([1]),
    lambda s: setattr(s, "b", [1]),
    lambda s: setattr(s, "b", s.a),
)
case(
    "type obj",
    lambda x, s: (x, s.t(3)),
    lambda: ns(t=int),
    lambda s: setattr(s, "t", float),
    lambda s: setattr(s, "t", str),
)
case(
    "func swap",
    lambda x, s: (x, s.t()),
    lambda: ns(t=g1),
    lambda s: setattr(s, "t", g2),
    lambda s: setattr(s.t, "__code__", g1.__code__),
)
case("itertools", lambda x, s: (x, list(itertools.islice(s.l, 1, None))), lambda: ns(l=[1, 2, 3]), lambda s: s.l.pop())
case(
    "ops",
    lambda x, s: (x, operator.attrgetter("a")(s), operator.itemgetter(0)(s.l)),
    lambda: ns(a=1, l=[1]),
    lambda s: setattr(s, "a", 4),
    lambda s: s.l.__setitem__(0, 7),
)
case(
    "vars",
    lambda x, s: (x, sorted(vars(s)), s.__dict__.get("zz")),
    lambda: ns(a=1),
    lambda s: setattr(s, "zz", 4),
    lambda s: delattr(s, "zz"),
)
case("dir", lambda x, s: (x, [n for n in dir(s) if n[0] != "_"]), lambda: ns(a=1), lambda s: setattr(s, "zz", 4))
case(
    "type name",
    lambda x, s: (x, s.C.__name__, s.o.__class__.__name__, s.C.__doc__, s.C.__module__),
    mkc,
    lambda s: setattr(s.C, "__name__", "Q"),
    lambda s: setattr(s.D, "__name__", "Z"),
)
case(
    "fn attrs",
    lambda x, s: (x, s.f.__name__, s.f.__doc__, getattr(s.f, "tag", 0)),
    mkf,
    lambda s: setattr(s.f, "__name__", "zz"),
    lambda s: setattr(s.f, "tag", 4),
    lambda s: setattr(s.f, "__doc__", "d"),
)
case("mro", lambda x, s: (x, [c.__name__ for c in type(s.o).__mro__]), mkc, lambda s: setattr(s.D, "__bases__", (s.E,)))
case("subclasses", lambda x, s: (x, len(s.C.__subclasses__())), mkc, lambda s: setattr(s, "zz", type("Z", (s.C,), {})))
case(
    "annotations",
    lambda x, s: (x, s.f.__annotations__, s.C.__dict__.get("v")),
    lambda: (lambda a, b: (a.__dict__.update(b.__dict__), a)[1])(mkc(), mkf()),
    lambda s: s.f.__annotations__.update(a=3),
    lambda s: setattr(s.C, "v", 44),
)


def outcome(fn, state):
    try:
        return str(fn(torch.ones(2), state))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("name", CASES)
def test_change_is_seen(name):
    fn, make, changes = CASES[name]
    compiled, state = framejit.to_static(fn), make()
    for change in (None, *changes, *changes[:1]):
        if change:
            change(state)
        for _ in range(2):
            assert outcome(compiled, state) == outcome(fn, state)
    stats = framejit.stats()
    assert stats["captures"] + stats["breaks"] > 0
