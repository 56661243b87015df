"""The rows of docs/ops.md: groups of entries, and their rules and traits in words."""

from __future__ import annotations

import re

from . import entries

PROMOTE = {
    "common": "the common type",
    "int_to_float": "the common type, integers as the default float type",
    "bool": "bool",
    "first": "the type of the first",
    "real": "the type of the first, of a complex one its real type",
}
REDUCE_TYPES = {
    "same": "the type stays",
    "sum": "integers become i64",
    "float": "floating and complex types only",
    "promoted": "integers become the default float type",
    "real": "floating and complex types, the result is real",
    "bool": "the result is bool, u8 stays",
    "index": "the result is i64",
}
TRAITS = {
    "random": "draws random numbers",
    "raises": "may raise on its data",
    "raises_on_integers": "may raise on integers",
    "writes_statistics": "writes running statistics",
    "data_dependent": "result depends on data",
    "side_effect": "has a side effect",
    "uninitialized": "leaves memory as it was",
    "maybe_view": "may be a view",
    "meta_in_place": "changes sizes and strides in place",
    "pointwise": "",  # the rule says so
    "reduction": "",
    "cpu_rule": "rule for the CPU alone",
    "cpu_scalar": "",  # so is every elementwise operator over two tensors
    "cpu_indices": "indices may be on the CPU",
    "any_devices": "copies between devices",
}


def title(path) -> tuple[str, str]:
    """The heading of a file of entries and the sentence that it begins with."""
    text = path.read_text()
    comment = re.match(r"((?:#.*\n)+)", text)
    if not comment:
        raise entries.BadEntry(f"{path.relative_to(entries.ROOT)}:1: expected a comment that says what the file holds")
    words = " ".join(line.lstrip("# ") for line in comment[1].splitlines())
    return path.stem.replace("_", " ").capitalize(), words


def functions_in_words() -> dict[str, str]:
    """{function of graph/infer/*.h: what its comment says, and the header}"""
    found = {}
    for header in sorted((entries.ROOT / "graph" / "infer").glob("*.h")):
        comment = ""
        for line in header.read_text().splitlines():
            declared = re.match(r"InferStatus (\w+)\(InferContext& c\);(?:\s*// (.*))?$", line)
            if declared:
                words = declared[2] or comment
                place = f"`{declared[1]}` of `infer/{header.name}`"
                found[declared[1]] = place + (": " + words.rstrip(".") if words else "")
            comment = line[3:] if line.startswith("// ") else ""
    return found


def rule_in_words(row, functions) -> str:
    entry, rule = row["entry"], row["rule"]
    if rule is None:
        return "none: LibTorch's Meta kernel"
    if rule in ("pointwise", "pointwise_inplace"):
        return "elementwise, " + PROMOTE[entry.fields.get("promote", "common")]
    if rule == "reduce":
        words = "reduction, " + REDUCE_TYPES[entry.fields.get("type", "same")]
        return words + (", with indices" if entry.fields.get("with_indices") else "")
    if rule == "scan":
        return "the shape of the first, " + ("integers become i64" if entry.fields.get("integers_sum") else "its type")
    if rule == "factory":
        like = entry.fields.get("like")
        return "the sizes given, " + (
            f"type and device of `{like}` unless given" if like else "type and device given or the default"
        )
    if rule == "like":
        return "sizes, strides, type and device of the first unless given"
    if rule == "arange":
        return "as many elements as the range has"
    return functions[rule]


def traits_in_words(row) -> str:
    schema, facts = row["parsed"], []
    if any(arg.written for arg in schema.args):
        facts.append("in place" if schema.args[0].written else "writes an argument")
    elif any("Tensor(" in r for r in schema.text.rpartition("->")[2].split(",")):
        facts.append("view")
    return ", ".join(facts + [TRAITS[t] for t in row["traits"] if TRAITS[t]])


def code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def expression_text(made) -> str:
    if made["nodes"]:
        return code(made["text"])
    return f"none: {made['reason']}" if made["reason"] else ""


def groups(rows, expressions) -> list[dict]:
    functions = functions_in_words()
    texts = {made["row"]["name"]: expression_text(made) for made in expressions}
    made = []
    for path in sorted(entries.OPS.glob("*.yaml")):
        heading, words = title(path)
        of_file = [row for row in rows if row["entry"].path == path]
        lines = [
            (code(row["parsed"].text), rule_in_words(row, functions), traits_in_words(row), texts[row["name"]])
            for row in sorted(of_file, key=lambda r: (r["parsed"].base.strip("_"), r["name"]))
        ]
        names = len({row["parsed"].base for row in of_file})
        columns = 4 if any(line[3] for line in lines) else 3
        made.append({
            "heading": heading, "words": words, "file": path.name, "names": names, "columns": columns,
            "lines": [line[:columns] for line in lines],
        })  # fmt: skip
    return made
