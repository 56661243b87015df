"""Classes and functions that generated programs use. A program has those that it names, and those that these name."""

from __future__ import annotations

import re
import textwrap

PIECES = {
    "Holder": """
        class Holder:
            made = 0
            def __init__(self, v):
                self.v = v
                self.count = 0
                Holder.made += 1
            def step(self, t):
                self.count += 1
                self.v = (self.v + t).sin()
                return self.v
            def __repr__(self):
                return f"Holder({self.count})"
    """,
    "helper": """
        def helper(t, k=1, *more):
            t = t.sin() * k
            for extra in more:
                t = t + extra
            return t
    """,
    "breaking_helper": """
        def breaking_helper(t, k=1):
            t = t.cos() + k
            framejit.graph_break()
            LOG.append("helper")
            return t.tanh()
    """,
    "branching_helper": """
        def branching_helper(t):
            if t.sum() > 0:
                return t.sin()
            return t * 0.5
    """,
    "raising_helper": """
        def raising_helper(t, k):
            if k % 3 == 0:
                raise ValueError("helper", k)
            return t.exp().tanh()
    """,
    "Signal": """
        class Signal(ValueError):
            def __init__(self, value, extra=None):
                super().__init__(value)
                self.extra = extra
    """,
    "Guarded": """
        class Guarded:
            def __init__(self, suppress):
                self.suppress = suppress
            def __enter__(self):
                LOG.append("enter")
                return 2
            def __exit__(self, kind, value, traceback):
                LOG.append(("exit", kind and kind.__name__, str(value)))
                return self.suppress and kind is not None and issubclass(kind, ValueError)
    """,
    "BreakingGuard": """
        class BreakingGuard:
            def __enter__(self):
                framejit.graph_break()
                LOG.append("enter")
                return self
            def __exit__(self, kind, value, traceback):
                print("exit", kind and kind.__name__)
    """,
    "managed": """
        @contextlib.contextmanager
        def managed(t, handle):
            LOG.append("before")
            try:
                yield t.cos()
            except ValueError as error:
                LOG.append(str(error))
                if not handle:
                    raise
            finally:
                LOG.append("after")
    """,
    "steps_of": """
        def steps_of(t, count):
            for step in range(count):
                got = yield t * step
                if got is not None:
                    t = t + got
            return count
    """,
    "breaking_steps": """
        def breaking_steps(t, count):
            try:
                for step in range(count):
                    framejit.graph_break()
                    yield t + step
            finally:
                LOG.append("steps end")
    """,
    "Point": """
        @dataclasses.dataclass
        class Point:
            x: object
            y: int = 1
            tags: list = dataclasses.field(default_factory=list)
            def norm(self):
                return (self.x * self.y).tanh()
    """,
    "Fixed": """
        @dataclasses.dataclass(frozen=True)
        class Fixed:
            scale: int
            shift: float = 0.5
            def apply(self, t):
                return (t * self.scale + self.shift).sin()
    """,
    "Pair": """
        Pair = collections.namedtuple("Pair", "left right")
    """,
    "Color": """
        class Color(enum.Enum):
            RED = 1
            GREEN = 2
            def paint(self, t):
                return t * self.value
    """,
    "Clipped": """
        class Clipped:
            def __set_name__(self, owner, name):
                self.name = "_" + name
            def __get__(self, instance, owner=None):
                return self if instance is None else getattr(instance, self.name, 0)
            def __set__(self, instance, value):
                setattr(instance, self.name, min(value, 3))
    """,
    "Gauge": """
        class Gauge:
            level = Clipped()
            def __init__(self, t):
                self.t = t
            @property
            def half(self):
                return self.t / 2
            @half.setter
            def half(self, value):
                self.t = value.tanh()
                self.level += 1
            @classmethod
            def of(cls, t):
                return cls(t.sin())
            @staticmethod
            def double(t):
                return t + t
    """,
    "Lazy": """
        class Lazy:
            def __init__(self, t):
                self.t = t
            def __getattr__(self, name):
                if name.startswith("_"):
                    raise AttributeError(name)
                self.__dict__[name] = value = self.t * len(name)
                return value
    """,
    "Slotted": """
        class Slotted:
            __slots__ = ("t", "k")
            def __init__(self, t, k):
                self.t, self.k = t, k
    """,
    "Base": """
        class Base:
            seen = []
            def __init__(self, t, k=1):
                self.t, self.k = t, k
            def run(self):
                self.seen.append(self.k)
                return self.t.sin() * self.k
    """,
    "Derived": """
        class Derived(Base):
            def __init__(self, t, k=2):
                super().__init__(t.cos(), k=k)
                self.extra = t
            def run(self):
                return super().run() + self.extra
    """,
    "Vector": """
        class Vector:
            def __init__(self, t):
                self.t = t
            def __add__(self, other):
                return Vector(self.t + getattr(other, "t", other))
            def __radd__(self, other):
                return Vector((other + self.t).sin())
            def __iadd__(self, other):
                self.t = (self.t + other).tanh()
                return self
            def __getitem__(self, index):
                return self.t[index]
            def __lt__(self, other):
                return bool(self.t.sum() < other.t.sum())
            def __call__(self, t, *, scale=1):
                return (self.t * t * scale).sin()
    """,
    "Sized": """
        class Sized:
            def __init__(self, *items):
                self.items = list(items)
            def __len__(self):
                LOG.append("len")
                return len(self.items)
            def __iter__(self):
                return iter(self.items)
            def __contains__(self, item):
                return any(item is own for own in self.items)
    """,
    "Truthy": """
        class Truthy:
            def __init__(self, t):
                self.t = t
            def __bool__(self):
                return bool(self.t.sum() > 0)
    """,
    "scaled": """
        def scaled(factor):
            def decorate(function):
                @functools.wraps(function)
                def wrapper(*args, **kwargs):
                    return function(*args, **kwargs) * factor
                return wrapper
            return decorate
    """,
    "sift": """
        def sift(t, /, k=1, *rest, flag=False, **named):
            LOG.append((k, len(rest), flag, sorted(named)))
            return (t * k).sin() if flag else t.cos()
    """,
    "kind_of": """
        @functools.singledispatch
        def kind_of(value):
            return "other"

        @kind_of.register(int)
        def _(value):
            return f"int {value}"

        @kind_of.register(torch.Tensor)
        def _(value):
            return "tensor"
    """,
    "TOTAL": """
        TOTAL = 1
    """,
    "weight": """
        weight = torch.full((1,), 0.5, requires_grad=True)
    """,
    "Twice": """
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, t):
                ctx.save_for_backward(t)
                return t.sin() * 2
            @staticmethod
            def backward(ctx, grad):
                (t,) = ctx.saved_tensors
                return grad * t.cos() * 2
    """,
    "STATE": """
        STATE = {"calls": 0, "last": None}
    """,
}


def prelude_for(text):
    """The pieces that a program names, in an order in which each can be run."""
    needed = set()
    pending = [text]
    while pending:
        words = set(re.findall(r"\w+", pending.pop()))
        found = [name for name in PIECES if name in words and name not in needed]
        needed.update(found)
        pending += [PIECES[name] for name in found]
    return "\n".join(textwrap.dedent(PIECES[name]).lstrip("\n") for name in PIECES if name in needed) + "\n\n"
