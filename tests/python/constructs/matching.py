"""match in all its forms."""

from __future__ import annotations

from .registry import Group

construct = Group("match")


def matching(name, source):
    construct.source(name, source, since=(3, 10))


matching(
    "match on a literal",
    """
    def f(x):
        out = []
        for mode in ("double", "half", "other"):
            match mode:
                case "double":
                    out.append(x * 2)
                case "half":
                    out.append(x / 2)
                case _:
                    out.append(x)
        return out
    """,
)
matching(
    "match with alternatives",
    """
    def f(x):
        match x.dim():
            case 1 | 2:
                return x.sum()
            case 0:
                return x
    """,
)
matching(
    "match with a guard",
    """
    def f(x):
        match x.shape[0]:
            case n if n > 5:
                return x
            case n if n > 2:
                return x * n
    """,
)
matching(
    "match on a sequence",
    """
    def f(x):
        match [x, x + 1]:
            case [only]:
                return only
            case [first, second]:
                return first * second
    """,
)
matching(
    "match on a sequence with a star",
    """
    def f(x):
        match tuple(x.unbind()):
            case first, *rest:
                return first * 2, rest
    """,
)
matching(
    "match on a mapping",
    """
    def f(x):
        match {"op": "scale", "by": 3, "more": 1}:
            case {"op": "shift", "by": n}:
                return x + n
            case {"op": "scale", "by": n, **rest}:
                return x * n, rest
    """,
)
matching(
    "match on a class by position and keyword",
    """
    class Scale:
        __match_args__ = ("factor", "shift")

        def __init__(self, factor, shift):
            self.factor, self.shift = factor, shift

    def f(x):
        match Scale(2, 3):
            case Scale(1, shift=s):
                return x + s
            case Scale(k, shift=3 as s):
                return x * k + s
    """,
)
matching(
    "match on builtin types",
    """
    def f(x):
        out = []
        for value in (1, 2.5, "s", x, None, True):
            match value:
                case bool():
                    out.append("bool")
                case int(n):
                    out.append(x * n)
                case float(n):
                    out.append(x + n)
                case str(text):
                    out.append(text)
                case None:
                    out.append(None)
                case torch.Tensor():
                    out.append(value.sin())
        return out
    """,
)
matching(
    "match on a value by its dotted name",
    """
    import enum

    class Mode(enum.Enum):
        TRAIN = 1
        TEST = 2

    def f(x):
        match Mode.TEST:
            case Mode.TRAIN:
                return x
            case Mode.TEST:
                return x * 2
    """,
)
matching(
    "match on a dataclass",
    """
    import dataclasses

    @dataclasses.dataclass
    class Point:
        a: object
        b: object

    def f(x):
        match Point(x, x.sin()):
            case Point(a, b):
                return a + b
    """,
)
matching(
    "match nested, with as",
    """
    def f(x):
        match ("layer", [1, {"scale": 2}]):
            case (str(name), [int() as n, {"scale": (1 | 2) as scale}]):
                return x * n * scale, name
    """,
)
matching(
    "match that matches nothing",
    """
    def f(x):
        match x.dtype:
            case "float":
                x = x + 1
            case torch.int64:
                x = x + 2
        return x * 2
    """,
)
