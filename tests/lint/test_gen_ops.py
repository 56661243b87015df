"""tools/gen_ops.py refuses an entry that it cannot generate from, and names file, line and field."""

import pathlib

import pytest

from opgen import entries
from opgen.builders import builders
from opgen.expressions import expressions
from opgen.page import groups

SIN = '- schema: "sin(Tensor self) -> Tensor"\n'
HEADER = "InferStatus own_rule(InferContext& c);\n"


@pytest.fixture
def collect(make_tree, monkeypatch):
    """collect(yaml) -> the rows of a tree with that one file."""

    def run(text):
        root = make_tree({"graph/ops/some.yaml": text, "graph/infer/own.h": HEADER})
        monkeypatch.setattr(entries, "ROOT", pathlib.Path(root))
        monkeypatch.setattr(entries, "OPS", entries.ROOT / "graph" / "ops")
        return entries.collect()

    return run


def test_entry_and_its_in_place_twin_are_rows(collect):
    rows = collect("# A comment.\n" + SIN + "  infer: pointwise\n  promote: int_to_float\n  inplace: true\n")
    assert [row["name"] for row in rows] == ["aten::sin", "aten::sin_"]
    assert rows[1]["schema"] == "aten::sin_(Tensor(a!) self) -> Tensor(a!)"
    assert all("kIntToFloat" in row["infer"] and row["flags"] == "kOpNative | kOpPointwise" for row in rows)


def test_function_of_a_header_is_a_rule(collect):
    (row,) = collect(SIN + "  infer: own_rule\n  traits: [raises]\n")
    assert row["infer"] == "infer::own_rule(c)" and row["flags"] == "kOpMayRaise | kOpNative"


@pytest.mark.parametrize(("text", "where", "what"), [
    ("- infer: own_rule\n", "1: schema", "expected 'name.overload(arguments) -> results', got None"),
    ('- schema: "sin(Tensor self"\n', "1: schema", "expected 'name.overload(arguments) -> results'"),
    ("- schema: [sin]\n", "1: schema", "expected 'name.overload(arguments) -> results', got ['sin']"),
    (SIN + "\n" + SIN, "3: schema", "expected each operator once, got aten::sin again (first in some.yaml:1)"),
    (SIN + "  infer: pointwize\n", "1: infer", "got 'pointwize'"),
    (SIN + "  infer: [pointwise]\n", "1: infer", "expected a name"),
    (SIN + "  infer: pointwise\n  promote: up\n", "1: promote", "got 'up'"),
    (SIN + "  infer: pointwise\n  promote: [bool]\n", "1: promote", "got ['bool']"),
    (SIN + "  infer: pointwise\n  args: [other]\n", "1: args", "expected an argument of the schema, got 'other'"),
    (SIN + "  infer: pointwise\n  args: self\n", "1: args", "expected a list of argument names, got 'self'"),
    (SIN + "  infer: reduce\n  type: big\n", "1: type", "got 'big'"),
    (SIN + "  infer: own_rule\n  promote: bool\n", "1: promote", "expected a field of rule 'own_rule'"),
    (SIN + "  traits: [noisy]\n", "1: traits", "got 'noisy'"),
    (SIN + "  traits: random\n", "1: traits", "expected a list, got 'random'"),
    (SIN + "  inplace: sometimes\n", "1: inplace", "got 'sometimes'"),
    ('- schema: "cos(Tensor x) -> Tensor"\n  inplace: true\n', "1: inplace", "whose first argument is 'Tensor self'"),
    ("sin: pointwise\n", "1", "expected a list of entries"),
    ("# A comment.\n- sin\n", "2", "expected a mapping with 'schema'"),
])  # fmt: skip
def test_bad_entry_is_refused(collect, text, where, what):
    with pytest.raises(entries.BadEntry) as refused:
        collect(text)
    message = str(refused.value)
    assert message.startswith(f"graph/ops/some.yaml:{where}: ") and what in message, message


def test_builders_have_names_of_their_own_and_the_defaults_of_the_schema(collect):
    made = builders(collect(
        '- schema: "add.Scalar(Tensor self, Scalar other, *, bool[2] mask, int[2] size=1, str? mode=None) -> Tensor"\n'
        '  inplace: true\n'
        '- schema: "add.Tensor(Tensor self, SymInt[]? dim=[1, 2]) -> (Tensor a, Tensor b)"\n'
    ))  # fmt: skip
    by_name = {builder["name"]: builder for builder in made}
    assert list(by_name) == ["add_scalar", "add", "add_"]
    assert by_name["add_scalar"]["declared"] == (
        "const TensorArg& self, const Scalar& other, const std::array<bool, 2>& mask, const Ints& size = {1, 1}, "
        "std::optional<std::string_view> mode = std::nullopt"
    )
    assert by_name["add"]["declared"] == "const TensorArg& self, const std::optional<Ints>& dim = Ints{1, 2}"
    assert by_name["add"]["result"] == "std::array<ValueId, 2>"


@pytest.mark.parametrize(("text", "what"), [
    (SIN + "  builder: 1st\n", "expected the name of a C++ function, got '1st'"),
    (SIN + '- schema: "cos(Tensor self) -> Tensor"\n  builder: sin\n', "expected a name of its own, got 'sin'"),
    ('- schema: "sin(Stream self) -> Tensor"\n', "expected types that opgen/builders.py knows, got 'Stream'"),
])  # fmt: skip
def test_builder_that_cannot_be_made_is_refused(collect, text, what):
    with pytest.raises(entries.BadEntry, match="graph/ops/some.yaml:[12]: ") as refused:
        builders(collect(text))
    assert what in str(refused.value)


POINTWISE = (
    '- schema: "f(Tensor self, Scalar? min, bool upper, str? mode) -> Tensor"\n  infer: pointwise\n  args: [self]\n'
)
REDUCE = '- schema: "g(Tensor self) -> Tensor"\n  infer: reduce\n'


def test_expression_is_flattened_with_equal_parts_once(collect):
    (made,) = expressions(collect(POINTWISE + "  expr: where(has(min) and upper, max(self * 2, min), -(self * 2))\n"))
    assert [(constant, operands) for constant, _, operands, *_ in made["nodes"]] == [
        ("kHas", ()), ("kTruthArgument", ()), ("kAnd", (0, 1)), ("kArgument", ()), ("kConstant", ()), ("kMultiply", (3, 4)),
        ("kArgument", ()), ("kMaximum", (5, 6)), ("kNegate", (5,)), ("kWhere", (2, 7, 8)),
    ]  # fmt: skip
    assert made["types"] == ["kFloating", "kInteger"] and not made["reduces"]


def test_compute_types_are_those_of_all_functions(collect):
    for text, types in [("exp(self)", ["kFloating"]), ("~self", ["kInteger"]), ("self + 0.5", ["kFloating"])]:
        (made,) = expressions(collect(POINTWISE + f"  expr: {text}\n"))
        assert made["types"] == types
    (made,) = expressions(collect(REDUCE + "  expr: sum(self) / count\n"))
    assert made["types"] == ["kFloating"] and made["reduces"]


def test_in_place_twins_have_the_expression_of_the_other(collect):
    text = SIN + "  infer: pointwise\n  inplace: true\n  expr: sin(self)\n"
    text += '- schema: "eq(Tensor self) -> Tensor"\n  expr: self == 0\n  infer: pointwise\n  promote: bool\n'
    text += '- schema: "eq_(Tensor(a!) self) -> Tensor(a!)"\n  infer: pointwise_inplace\n  promote: bool\n'
    assert [made["of"] for made in expressions(collect(text))] == ["k_eq", "k_eq", "k_sin", "k_sin"]


@pytest.mark.parametrize(("text", "field", "what"), [
    ("", "expr", "expected an expression, or none and a reason: aten::f is pointwise"),
    ("  expr: none\n", "reason", "expected why there is no expression, got None"),
    ("  expr: self\n  reason: no\n", "reason", "expected a reason only beside expr: none"),
    ("  expr: 1\n", "expr", "expected an expression or none, got 1"),
    ("  expr: self +\n", "expr", "expected an expression, got 'self +': "),
    ("  expr: self + other\n", "expr", "expected an argument of the schema or a constant, got 'other'"),
    ("  expr: sine(self)\n", "expr", "expected a function of graph/expression.def, got 'sine'"),
    ("  expr: self ** 2\n", "expr", "expected an operator of graph/expression.def, got 'self ** 2'"),
    ("  expr: self.x\n", "expr", "expected arithmetic, comparisons and calls, got 'self.x'"),
    ("  expr: where(self, 1)\n", "expr", "expected 3 operands of 'where', got 2"),
    ("  expr: where(self, 1, 2)\n", "expr", "expected a truth value as operand 0 of 'where', got a number"),
    ("  expr: self + (self == 0)\n", "expr", "expected a number as operand 1 of '+', got a truth value"),
    ("  expr: self == 0\n", "expr", "expected a number, got a truth value"),
    ("  expr: self < 0 < 1\n", "expr", "expected one comparison, got 'self < 0 < 1'"),
    ("  expr: sum(self)\n", "expr", "expected no reduction in an operator without the trait, got 'sum'"),
    ("  expr: self + mode\n", "expr", "expected an argument that is a number, got 'mode', of type str?"),
    ("  expr: where(self == 'up', 1, 0)\n", "expr", "expected an argument of type str, got 'self', of type Tensor"),
    ("  expr: where(has(self), 1, 0)\n", "expr", "expected an optional argument, got 'self', which is always given"),
    ("  expr: where(is_onednns(mode), 1, 0)\n", "expr", "expected an argument of type Tensor, got 'mode', of type str?"),
    ("  expr: where(since(2.8), self, 1)\n", "expr", 'expected a release of torch as since("2.8"), got 2.8'),
    ("  expr: where(True, 1, 0)\n", "expr", "expected a number, got True"),
    ("  expr: exp(self) + (self & 1)\n", "expr", "expected functions that are defined in one type"),
    ("  expr: exp(self)\n  expr_types: [int]\n", "expr_types", "expected types that all functions of the expression have, got 'int'"),
    ("  expr: self\n  expr_types: [half]\n", "expr_types", "expected a list of float, int, bool, got ['half']"),
])  # fmt: skip
def test_bad_expression_is_refused(collect, text, field, what):
    with pytest.raises(entries.BadEntry) as refused:
        expressions(collect(POINTWISE + text))
    message = str(refused.value)
    assert message.startswith(f"graph/ops/some.yaml:1: {field}: ") and what in message, message


def test_reduction_must_reduce(collect):
    with pytest.raises(entries.BadEntry, match="expr: expected a reduction, got none"):
        expressions(collect(REDUCE + "  expr: self + 1\n"))


def test_page_has_each_overload_with_its_rule_in_words(collect):
    text = (
        "# Waves of sound.\n"
        + SIN
        + "  infer: pointwise\n  promote: int_to_float\n  inplace: true\n  expr: sin(self)\n"
    )
    rows = collect(text)
    (group,) = groups(rows, expressions(rows))
    assert (group["heading"], group["words"], group["names"]) == ("Some", "Waves of sound.", 2)
    words = "elementwise, the common type, integers as the default float type"
    assert group["lines"] == [
        ("`sin(Tensor self) -> Tensor`", words, "", "`sin(self)`"),
        ("`sin_(Tensor(a!) self) -> Tensor(a!)`", words, "in place", "`sin(self)`"),
    ]


def test_file_of_entries_must_say_what_it_holds(collect):
    with pytest.raises(entries.BadEntry, match=r"some\.yaml:1: expected a comment that says what the file holds"):
        groups(collect(SIN), [])


def test_yaml_that_does_not_parse_is_refused(collect):
    with pytest.raises(entries.BadEntry, match=r"(?s)graph/ops/some\.yaml.*line 1"):
        collect('- schema: "sin(\n')
