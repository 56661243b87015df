"""Programs of the grammar, drawn by Hypothesis.

Programs end (loops are bounded) and stay finite (a tensor passes through a bounded function), and nothing in them
hangs on addresses or on the order of hashes, so that two runs can be compared to the bit.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import NamedTuple

from hypothesis import strategies as st

from . import breaks, classes, containers, control, exceptions, expressions, functions, generators, gradients, library
from .prelude import prelude_for
from .rows import BLOCKS, HOLE

MAX_STATEMENTS = 24
MAX_DEPTH = 4
MAX_LOOPS = 2

STATEMENT_TABLES = (containers, control, exceptions, functions, generators, classes, library, gradients)


def known_here(rows):
    return [row for row in rows if row.since is None or sys.version_info >= row.since]


STATEMENTS = known_here(row for table in STATEMENT_TABLES for row in table.STATEMENTS)
BREAKS = known_here(breaks.STATEMENTS)
EXPRESSIONS = known_here(expressions.EXPRESSIONS)
ALL_CONSTRUCTS = [row.name for row in STATEMENTS + BREAKS + EXPRESSIONS]


@functools.lru_cache(maxsize=None)
def one_of(*options):
    return st.sampled_from(options)


@functools.lru_cache(maxsize=None)
def up_to(limit):
    return st.integers(0, limit)


class Program(NamedTuple):
    source: str
    constructs: tuple
    requires_grad: bool

    def __repr__(self):
        return f"requires_grad = {self.requires_grad}\n{self.source}"


class Scope(NamedTuple):
    """What a statement may name and do where it stands."""

    tensors: tuple  # to be read
    targets: tuple  # tensors to be assigned
    numbers: tuple
    number_targets: tuple
    depth: int = 1
    loops: int = 0
    in_loop: bool = False
    in_function: bool = True
    in_generator: bool = False

    def place(self):
        """Which rows may stand here: those whose `where` is among these, and loops or not."""
        places = [None]
        places += ["loop"] * self.in_loop + ["generator"] * self.in_generator
        places += ["function"] * (self.in_function and not self.in_generator) + ["outermost"] * (self.tensors[0] != "v")
        return (*places, "more loops") if self.loops < MAX_LOOPS else tuple(places)

    def deeper(self, kind, indent):
        """The scope of the statements that a hole of this kind stands for."""
        inner = self._replace(depth=self.depth + indent)
        if kind == "loop":
            return inner._replace(in_loop=True, loops=self.loops + 1)
        if kind == "plain":
            return inner._replace(in_loop=False, in_function=False)
        if kind in ("body", "steps"):
            return inner._replace(
                tensors=("v", *(name for name in self.tensors if name != "v")),
                targets=("v",),
                numbers=("k", *(name for name in self.numbers if name != "k")),
                number_targets=("k",),
                loops=self.loops + (kind == "steps"),
                in_loop=False,
                in_function=True,
                in_generator=kind == "steps",
            )
        return inner


def weighted(rows):
    return st.sampled_from([row for row in rows for _ in range(row.weight)])


@functools.lru_cache(maxsize=None)
def statements_in(place, nested):
    allowed = [row for row in STATEMENTS if row.where in place and (not row.is_loop or "more loops" in place)]
    return weighted([row for row in allowed if row.is_nested == nested] + BREAKS * (not nested))


ANY_BREAK, ANY_EXPRESSION = weighted(BREAKS), weighted(EXPRESSIONS)


class Writer:
    """One program under construction."""

    def __init__(self, draw):
        self.draw = draw
        self.lines = []
        self.constructs = []
        self.statements = 0
        self.names = 0
        self.expression_depth = 0

    def function(self):
        self.lines = ["def f(x, y, n, items):", "    a, b, c, m = x, y, x * 2, 3"]
        self.lines += ["    table, holder = {'t': y, 'n': n}, Holder(x)"]
        tensors, numbers = ("a", "b", "c"), ("n", "m")
        self.block(Scope(tensors, tensors, numbers, numbers), "    ", at_most=9, stop=24)
        self.lines.append("    return a, b, c, m, n, table, items, holder")
        return "\n".join(self.lines) + "\n"

    def block(self, scope, indent, at_most=3, stop=6):
        start = len(self.lines)
        for _ in range(at_most):
            if self.statements >= MAX_STATEMENTS or self.draw(up_to(stop)) == 0:
                break
            self.draw(statement(self, scope, indent))
        if len(self.lines) == start:
            self.lines.append(indent + "pass")

    def statement(self, draw, scope, indent):
        self.statements += 1
        nested = scope.depth < MAX_DEPTH and draw(up_to(9)) > 5
        self.write(self.choose(statements_in(scope.place(), nested)), scope, indent)

    def choose(self, rows):
        row = self.draw(rows)
        self.constructs.append(row.name)
        return row

    def write(self, row, scope, indent):
        filled, function_indent = {}, None
        for line in row.lines:
            text = line.lstrip()
            depth = len(line) - len(text)
            inner = indent + line[:depth]
            if function_indent is None or depth <= function_indent:
                function_indent = depth if text.startswith("def ") else None
            if text == "$brk" and function_indent is not None:
                self.write_block("brk", scope.deeper("body", 0), inner, row, filled)
            elif text[1:] in BLOCKS and text.startswith("$"):
                self.write_block(text[1:], scope, inner, row, filled)
            else:
                self.lines.append(inner + self.fill(text, row, scope, filled))

    def write_block(self, kind, scope, indent, row, filled):
        if kind == "brk":
            if self.draw(up_to(1)):
                self.write(self.choose(ANY_BREAK), scope, indent)
            return
        inner = scope.deeper(kind, 1)
        if kind in ("body", "steps") and "nonlocal $T, $N" in "\n".join(row.lines):
            inner = inner._replace(targets=("v", filled["T"]), number_targets=("k", filled["N"]))
        self.block(inner, indent)

    def fill(self, text, row, scope, filled):
        def value(match):
            name = match.group(1)
            if name not in filled:
                filled[name] = self.hole(name, row, scope, filled)
            return filled[name]

        return HOLE.sub(value, text)

    def hole(self, name, row, scope, filled):
        if name in row.choices:
            return self.fill(self.draw(one_of(*row.choices[name])), row, scope, filled)
        if name.startswith("new_"):
            self.names += 1
            return f"{name[4:]}{self.names}"
        return getattr(self, "fill_" + name.rstrip("0123456789"))(scope)

    def fill_t(self, scope):
        return self.draw(one_of(*scope.tensors))

    fill_u = fill_t

    def fill_T(self, scope):
        return self.draw(one_of(*scope.targets))

    def fill_N(self, scope):
        return self.draw(one_of(*scope.number_targets))

    def fill_k(self, scope):
        return self.draw(one_of(*scope.numbers, "1", "2", "len(items)"))

    fill_j = fill_k

    def fill_e(self, scope):
        if self.expression_depth >= 2:
            return self.fill_t(scope)
        self.expression_depth += 1
        row = self.choose(ANY_EXPRESSION)
        text = self.fill(row.lines[0], row, scope, {})
        self.expression_depth -= 1
        return text

    def fill_c(self, scope):
        tests = ("k > 1", "k % 2", "items", "k == 3 or j", "not table", "1 <= k < j <= 4", "(got := k) and got > 1")
        test = self.draw(one_of(*tests))
        return re.sub(r"\b[kj]\b", lambda _: self.fill_k(scope), test)

    def fill_d(self, scope):
        tests = ("t.sum() > 0", "t.mean() < u.max()", "(t > 1).any()", "t.sum().item() > k", "torch.allclose(t, u)")
        test = re.sub(r"\bk\b", lambda _: self.fill_k(scope), self.draw(one_of(*tests)))
        return re.sub(r"\b[tu]\b", lambda _: self.fill_t(scope), test)


@st.composite
def statement(draw, writer, scope, indent):
    """One statement, drawn as a unit that can be left out of a smaller program."""
    writer.statement(draw, scope, indent)


@st.composite
def programs(draw):
    writer = Writer(draw)
    text = writer.function()
    requires_grad = draw(up_to(5)) == 5
    return Program(prelude_for(text) + text, tuple(writer.constructs), requires_grad)
