"""tools/gen_ops.py refuses an entry that it cannot generate from, and names file, line and field."""

import pathlib

import pytest

from opgen import entries
from opgen.builders import builders
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


def test_page_has_each_overload_with_its_rule_in_words(collect):
    (group,) = groups(collect("# Waves of sound.\n" + SIN + "  infer: pointwise\n  promote: int_to_float\n  inplace: true\n"))
    assert (group["heading"], group["words"], group["names"]) == ("Some", "Waves of sound.", 2)
    assert group["lines"] == [
        ("`sin(Tensor self) -> Tensor`", "elementwise, the common type, integers as the default float type", ""),
        ("`sin_(Tensor(a!) self) -> Tensor(a!)`", "elementwise, the common type, integers as the default float type", "in place"),
    ]


def test_file_of_entries_must_say_what_it_holds(collect):
    with pytest.raises(entries.BadEntry, match=r"some\.yaml:1: expected a comment that says what the file holds"):
        groups(collect(SIN))


def test_yaml_that_does_not_parse_is_refused(collect):
    with pytest.raises(entries.BadEntry, match=r"(?s)graph/ops/some\.yaml.*line 1"):
        collect('- schema: "sin(\n')
