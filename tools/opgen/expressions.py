"""The field `expr`: parsed, checked, and flattened to the nodes of graph/generated/expressions.cpp.

The language is Python's of expressions: numbers, `inf`, `nan`, `pi`, the arguments of the schema, arithmetic, comparisons,
`and`, `or`, `not`, and the functions of graph/expression.def. `has(x)` tells whether an optional argument is given,
`mode == "text"` compares one that is a text, `count` is how many elements a reduction reduces to one, `since("2.8")` tells whether torch is
of that release or later, `is_cuda` whether the result is on a CUDA device, `is_onednns(x)` whether LibTorch has oneDNN
compute this, as the tensor x is, `loses_infinity(x)` whether that has no number for the gelu of an infinity.
"""

from __future__ import annotations

import ast
import re

from . import entries

OF_ONEDNN = {"is_onednns": "kIsOneDnns", "loses_infinity": "kLosesInfinity"}

LEAVES = {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}
COMPUTE_TYPES = {"float": ("f", "kFloating"), "int": ("i", "kInteger"), "bool": ("i", "kBoolean")}
DEFAULT_TYPES = ("float", "int")
BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
UNARY = {ast.USub: "neg", ast.Not: "not", ast.Invert: "~"}
NUMBERS = ("Tensor", "Scalar", "float", "int")
WORDS = {"n": "a number", "t": "a truth value"}


class Function:
    def __init__(self, kind, name, spelling, operands, result, types):
        self.reduces = kind == "REDUCTION"
        self.constant, self.spelling, self.operands, self.result, self.types = (
            "k" + name,
            spelling,
            operands,
            result,
            types,
        )


def functions() -> dict[tuple[str, int], Function]:
    """{(spelling, number of operands): function} of graph/expression.def."""
    text = (entries.EXPRESSIONS).read_text()
    rows = re.findall(r'^(EXPRESSION|REDUCTION)\((\w+), "([^"]+)", "(\w+)", \'(\w)\', "(\w+)"\)$', text, re.M)
    return {(row[2], len(row[3])): Function(*row) for row in rows}


class Parser:
    """One expression: nodes in order, equal ones once."""

    def __init__(self, entry, schema, table):
        self.entry, self.table = entry, table
        self.arguments = {arg.name: (i, arg) for i, arg in enumerate(schema.args)}
        self.nodes: list[tuple] = []  # (constant, result, operands, index, value, text)
        self.types = {"f", "i"}
        self.reduces = False

    def fail(self, message):
        self.entry.fail("expr", message)

    def parse(self, text):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            self.fail(f"expected an expression, got {text!r}: {error.msg} at column {error.offset}")
        self.visit(tree)

    def add(self, constant, result, operands=(), index=-1, value=0.0, text=None):
        node = (constant, result, tuple(operands), index, repr(value), text)
        if node not in self.nodes:
            self.nodes.append(node)
        return self.nodes.index(node)

    def call(self, spelling, operands, types=None):
        """A node of the function that has this many operands."""
        function = self.table.get((spelling, len(operands)))
        if function is None:
            counts = sorted(n for name, n in self.table if name == spelling)
            if counts:
                self.fail(f"expected {' or '.join(map(str, counts))} operands of {spelling!r}, got {len(operands)}")
            self.fail(f"expected a function of graph/expression.def, got {spelling!r}")
        for number, (operand, wanted) in enumerate(zip(operands, function.operands)):
            got = self.nodes[operand][1]
            if got != wanted:
                self.fail(f"expected {WORDS[wanted]} as operand {number} of {spelling!r}, got {WORDS[got]}")
        if function.reduces and "reduction" not in self.entry.row_traits:
            self.fail(f"expected no reduction in an operator without the trait, got {spelling!r}")
        self.reduces |= function.reduces
        self.types &= set(function.types)
        return self.add(function.constant, function.result, operands)

    def visit(self, tree):
        method = getattr(self, "visit_" + type(tree).__name__, None)
        if method is None:
            self.fail(f"expected arithmetic, comparisons and calls, got {ast.unparse(tree)!r}")
        return method(tree)

    def operator(self, table, tree, operator):
        if type(operator) not in table:
            self.fail(f"expected an operator of graph/expression.def, got {ast.unparse(tree)!r}")
        return table[type(operator)]

    def visit_BinOp(self, tree):
        spelling = self.operator(BINARY, tree, tree.op)
        return self.call(spelling, [self.visit(tree.left), self.visit(tree.right)])

    def visit_UnaryOp(self, tree):
        if isinstance(tree.op, ast.USub) and isinstance(tree.operand, ast.Constant):
            return self.visit_Constant(ast.Constant(-tree.operand.value))
        return self.call(self.operator(UNARY, tree, tree.op), [self.visit(tree.operand)])

    def visit_BoolOp(self, tree):
        spelling = "and" if isinstance(tree.op, ast.And) else "or"
        made = self.visit(tree.values[0])
        for value in tree.values[1:]:
            made = self.call(spelling, [made, self.visit(value)])
        return made

    def visit_Compare(self, tree):
        if len(tree.ops) != 1:
            self.fail(f"expected one comparison, got {ast.unparse(tree)!r}")
        (right,) = tree.comparators
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            index, arg = self.argument(tree.left, "str")
            if not isinstance(tree.ops[0], ast.Eq):
                self.fail(f"expected == with a text, got {ast.unparse(tree)!r}")
            return self.add("kTextIs", "t", index=index, text=right.value)
        spelling = self.operator(COMPARE, tree, tree.ops[0])
        return self.call(spelling, [self.visit(tree.left), self.visit(right)])

    def visit_Call(self, tree):
        if not isinstance(tree.func, ast.Name) or tree.keywords:
            self.fail(f"expected a function of graph/expression.def, got {ast.unparse(tree)!r}")
        if tree.func.id == "since":
            return self.add("kSince", "t", value=float(self.release(tree.args)))
        if tree.func.id not in ("has", *OF_ONEDNN):
            return self.call(tree.func.id, [self.visit(operand) for operand in tree.args])
        if len(tree.args) != 1:
            self.fail(f"expected 1 operand of {tree.func.id!r}, got {len(tree.args)}")
        if tree.func.id in OF_ONEDNN:
            return self.add(OF_ONEDNN[tree.func.id], "t", index=self.argument(tree.args[0], "Tensor")[0])
        index, arg = self.argument(tree.args[0])
        if not arg.is_optional:
            self.fail(f"expected an optional argument, got {arg.name!r}, which is always given")
        return self.add("kHas", "t", index=index)

    def release(self, operands):
        """100 * major + minor, as graph/expression.h compares it."""
        text = operands[0].value if len(operands) == 1 and isinstance(operands[0], ast.Constant) else None
        found = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
        if not found:
            self.fail(f'expected a release of torch as since("2.8"), got {", ".join(map(ast.unparse, operands))}')
        return 100 * int(found[1]) + int(found[2])

    def visit_Constant(self, tree):
        value = tree.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(f"expected a number, got {value!r}")
        if isinstance(value, float):
            self.types.discard("i")
        return self.add("kConstant", "n", value=float(value))

    def visit_Name(self, tree):
        if tree.id in self.arguments:
            index, arg = self.argument(tree)
            if arg.element == "bool":
                return self.add("kTruthArgument", "t", index=index)
            if arg.element not in NUMBERS:
                self.fail(f"expected an argument that is a number, got {arg.name!r}, of type {arg.type}")
            return self.add("kArgument", "n", index=index)
        if tree.id == "is_cuda":
            return self.add("kIsCuda", "t")
        if tree.id == "count" and "reduction" in self.entry.row_traits:
            return self.add("kCount", "n")
        if tree.id in LEAVES:
            self.types.discard("i")
            return self.add("kConstant", "n", value=LEAVES[tree.id])
        self.fail(f"expected an argument of the schema or a constant, got {tree.id!r}")

    def argument(self, tree, kind=None):
        name = tree.id if isinstance(tree, ast.Name) else None
        if name not in self.arguments:
            self.fail(f"expected an argument of the schema, got {ast.unparse(tree)!r}")
        index, arg = self.arguments[name]
        if kind and arg.element != kind:
            self.fail(f"expected an argument of type {kind}, got {name!r}, of type {arg.type}")
        return index, arg


def compute_types(entry, parser) -> list[str]:
    """The C++ names of the compute types in which all its functions are defined, or those of them that the entry names."""
    asked = entry.fields.get("expr_types")
    if asked is not None and (not isinstance(asked, list) or not asked or set(asked) - set(COMPUTE_TYPES)):
        entry.fail("expr_types", f"expected a list of {', '.join(COMPUTE_TYPES)}, got {asked!r}")
    for name in asked or ():
        if COMPUTE_TYPES[name][0] not in parser.types:
            entry.fail("expr_types", f"expected types that all functions of the expression have, got {name!r}")
    found = [COMPUTE_TYPES[n][1] for n in asked or DEFAULT_TYPES if COMPUTE_TYPES[n][0] in parser.types]
    if not found:
        entry.fail("expr", "expected functions that are defined in one type, got some of floats and some of integers")
    return found


def parse(row, table) -> dict:
    """The nodes of a row's expression, or the reason why it has none."""
    entry = row["entry"]
    entry.row_traits = row["traits"]
    text, reason = entry.fields.get("expr"), entry.fields.get("reason")
    if not isinstance(text, str):
        entry.fail("expr", f"expected an expression or none, got {text!r}")
    if text == "none":
        if not isinstance(reason, str) or not reason:
            entry.fail("reason", f"expected why there is no expression, got {reason!r}")
        return {"reason": reason}
    if reason is not None:
        entry.fail("reason", "expected a reason only beside expr: none")
    parser = Parser(entry, row["parsed"], table)
    parser.parse(text)
    wanted = "t" if entry.fields.get("promote") == "bool" or entry.fields.get("type") == "bool" else "n"
    if parser.nodes[-1][1] != wanted:
        entry.fail("expr", f"expected {WORDS[wanted]}, got {WORDS[parser.nodes[-1][1]]}")
    if "reduction" in row["traits"] and not parser.reduces:
        entry.fail("expr", "expected a reduction, got none")
    return {"nodes": parser.nodes, "types": compute_types(entry, parser), "reduces": parser.reduces, "text": text}


def expressions(rows) -> list[dict]:
    """For each row, in order: its expression, that of its functional twin, or what is said in the place of one."""
    table, by_name, made = functions(), {row["name"]: row for row in rows}, []
    none = {"nodes": None, "reason": None, "of": None}
    for row in rows:
        schema = row["parsed"]
        source = row
        if schema.base.endswith("_"):
            twin = by_name.get("aten::" + schema.base[:-1] + ("." + schema.overload if schema.overload else ""), row)
            if twin["entry"] is row["entry"] or "expr" not in row["entry"].fields:
                source = twin
        if "expr" in source["entry"].fields:
            made.append({**none, "row": row, "of": source["constant"], **parse(source, table)})
        elif "pointwise" in row["traits"]:
            row["entry"].fail("expr", f"expected an expression, or none and a reason: {row['name']} is pointwise")
        else:
            made.append({**none, "row": row})
    return made


def node_text(node) -> str:
    constant, result, operands, index, value, text = node
    slots = ", ".join(str(o) for o in (*operands, -1, -1, -1)[:3])
    value = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(value, value)
    return (
        f"{{ExpressionOp::{constant}, {'true' if result == 't' else 'false'}, {{{slots}}}, {index}, {value}, "
        f"{chr(34) + text + chr(34) if text is not None else 'nullptr'}}}"
    )
