"""tools/gen_ops.py refuses an entry that it cannot generate from, and names file, line and field."""

import pytest

import gen_ops

SIN = '- schema: "sin(Tensor self) -> Tensor"\n'
HEADER = "InferStatus own_rule(InferContext& c);\n"


@pytest.fixture
def collect(make_tree, monkeypatch):
    """collect(yaml) -> the rows of a tree with that one file."""

    def run(text):
        root = make_tree({"graph/ops/some.yaml": text, "graph/infer/own.h": HEADER})
        monkeypatch.setattr(gen_ops, "ROOT", gen_ops.pathlib.Path(root))
        monkeypatch.setattr(gen_ops, "OPS", gen_ops.ROOT / "graph" / "ops")
        return gen_ops.collect()

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
    with pytest.raises(gen_ops.BadEntry) as refused:
        collect(text)
    message = str(refused.value)
    assert message.startswith(f"graph/ops/some.yaml:{where}: ") and what in message, message


def test_yaml_that_does_not_parse_is_refused(collect):
    with pytest.raises(gen_ops.BadEntry, match=r"(?s)graph/ops/some\.yaml.*line 1"):
        collect('- schema: "sin(\n')
