"""Syntax that only newer Pythons have, from source text, and statements that are rare."""

import sys

import pytest
import torch

from support.same_as_eager import assert_same_as_eager
from support.source import define_function


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def since(*version):
    return pytest.mark.skipif(sys.version_info < version, reason=f"syntax of Python {'.'.join(map(str, version))}")


def check(source, *args, **options):
    return assert_same_as_eager(define_function(source, torch=torch, LOG=[]), *(args or (x3(),)), **options)


MATCH = """
class Point:
    __match_args__ = ("a", "b")
    def __init__(self, a, b):
        self.a, self.b = a, b

def f(x, subject):
    y = x + 1
    match subject:
        case 0 | 1:
            return y, "small"
        case int(n) if n > 100:
            return y * 2, n
        case [first, *rest]:
            return y * first, rest
        case {"key": value, **others}:
            return y + value, others
        case Point(a, b=3):
            return y * a, "point"
        case str() as text:
            return y, text
        case None:
            return y, "none"
        case _:
            return y, "other"
"""


@since(3, 10)
@pytest.mark.parametrize("subject", [0, 1, 200, 50, [2, 3, 4], (5,), {"key": 2, "more": 1}, {"no": 1}, "text", None, 2.5], ids=repr)
def test_match(subject):
    check(MATCH, x3(), subject)


@since(3, 10)
def test_match_of_a_class():
    source = MATCH + "\nmake = Point\ninner = f\ndef f(x):\n    return inner(x, make(2, 3)), inner(x, make(2, 4))\n"
    check(source)


@since(3, 10)
def test_parenthesized_context_managers():
    check("""
    def f(x):
        with (torch.no_grad(), torch.autocast("cpu", enabled=False) as a,):
            return x * 2
    """)


@since(3, 11)
def test_except_star():
    check(
        """
        def f(x):
            seen = []
            try:
                y = x + 1
                raise ExceptionGroup("group", [ValueError(1), KeyError(2), ValueError(3)])
            except* ValueError as group:
                seen.append([error.args for error in group.exceptions])
            except* KeyError as group:
                seen.append("key")
            return y, seen
        """,
        breaks=None,
    )


@since(3, 11)
def test_exception_notes():
    check(
        """
        def f(x):
            error = ValueError("with notes")
            error.add_note("note one")
            LOG.append(x + 1)
            raise error
        """,
        raises=ValueError,
        graphs=None,
        breaks=None,
    )


@since(3, 11)
def test_starred_subscript():
    check("""
    def f(x):
        index = (0, slice(1, 3))
        return x[*index, None], x[0, *[1]]
    """, torch.arange(6.0).reshape(2, 3))


@since(3, 12)
def test_type_parameters_and_aliases():
    check("""
    class Box[T]:
        def __init__(self, value: T):
            self.value = value
    def first[T](values: list[T]) -> T:
        return values[0]
    def f(x):
        return first([x + 1]), Box(x * 2).value
    """)


@since(3, 12)
def test_nested_f_string_quotes():
    check("""
    def f(x):
        table = {"a": 1}
        return x + 1, f"{table["a"]} {f"{len(table)}"}"
    """)


@since(3, 12)
def test_inlined_comprehension_restores_its_variable():
    check("""
    def f(x):
        i = 7
        values = [x * i for i in range(3)]
        nested = [[i + j for j in range(i)] for i in range(3)]
        return values, nested, i
    """)


@since(3, 9)
def test_any_expression_as_a_decorator():
    check("""
    table = {"double": lambda fn: lambda x: fn(x) * 2}
    @table["double"]
    def g(x):
        return x + 1
    def f(x):
        return g(x)
    """)


def test_annotations_and_positional_only():
    check("""
    def g(a: int, /, b: "text" = 2, *, c: float = 3.0) -> None:
        d: int = 4
        e: list
        return a * b + c + d
    def f(x: torch.Tensor) -> torch.Tensor:
        return g(x), g(x, c=1)
    """)


def test_dead_code_and_pass():
    check("""
    def f(x):
        pass
        if 0:
            x = x * 0
        "text"
        ...
        while 0:
            pass
        return x + 1
        return x * 0
    """)


def test_lambda_with_everything():
    check("""
    def f(x):
        g = lambda a, b=2, *c, d, e=5, **h: (a * b, c, d, e, h)
        return g(x, d=1), g(x, 3, 4, d=5, i=6)
    """)


def test_conditional_import_and_star_expression_return():
    check("""
    def f(x):
        try:
            import no_such_module_anywhere
        except ImportError as error:
            name = error.name
        rest = [1, 2]
        return x + 1, name, *rest
    """, breaks=None, warm=False)  # the import system runs, with objects of its own that are new each time


def test_long_jumps():
    body = "\n".join(f"            x = x + {i}" for i in range(300))
    check(f"""
    def f(x):
        for i in range(2):
            if i == 1:
{body.replace('            x', '                x')}
            else:
                x = x * 2
        return x
    """)


def test_deeply_nested_blocks():
    lines, indent = ["def f(x):"], "    "
    for i in range(6):
        lines += [f"{indent}for i{i} in range(1):", f"{indent}    try:", f"{indent}        with torch.no_grad():", f"{indent}            x = x + {i}"]
        indent += "            "
    lines.append(f"{indent}x = x * 2")
    for i in reversed(range(6)):
        indent = "    " + "            " * i
        lines += [f"{indent}    finally:", f"{indent}        x = x - 1"]
    lines.append("    return x")
    check("\n".join(lines) + "\n")


def test_ellipsis_and_slices_as_values():
    check("""
    def f(x):
        s = slice(1, None)
        return x[s], x[...], s.start, slice(0, 6, 2).indices(5), ... is Ellipsis
    """)


def test_chained_comparison_and_boolean_logic():
    check("""
    def f(x, n=3):
        a = 1 < n < 5 < 9
        b = 1 < n > 7 or n in (3, 4) and not n is None
        c = n and 0 or "last"
        d = [] or {} or None
        return x + 1, a, b, c, d, (n if a else b), not (a != b)
    """)


def test_global_statement_and_class_attributes():
    check("""
    STATE = 0
    class Model:
        count = 0
        def __call__(self, x):
            global STATE
            STATE += 1
            Model.count += STATE
            return x * Model.count
    model = Model()
    def f(x):
        return model(x) + model(x)
    """, breaks=None, graphs=None)  # a write to a class breaks


def test_async_function_called_by_hand():
    check(
        """
        async def g(x):
            return x + 1
        def f(x):
            coroutine = g(x)
            try:
                coroutine.send(None)
            except StopIteration as stop:
                return stop.value * 2
        """,
        breaks=None,
        graphs=None,
    )


def test_exec_and_eval():
    check(
        """
        def f(x):
            names = {"x": x}
            exec("y = x + 1", names)
            return names["y"] * eval("2 + 1"), eval("x * 2", {"x": x})
        """,
        breaks=None,
        graphs=None,
    )
