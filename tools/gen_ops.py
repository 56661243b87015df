#!/usr/bin/env python3
"""Generates all that the project knows of operators from graph/ops/*.yaml: see OUTPUTS.

    tools/gen_ops.py            write the files
    tools/gen_ops.py --check    exit 1, naming the file, when a committed file differs from what would be written

An entry of graph/ops/*.yaml:

    - schema: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"   # as LibTorch has it; namespace aten
      infer: pointwise          # a rule of RULES in opgen/entries.py, or a function `InferStatus name(InferContext&)` of
                                # graph/infer/*.h; absent: facts only, inference goes through LibTorch's Meta kernel
      promote: int_to_float     # the rule's own fields
      inplace: true             # also the in-place twin: add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)
      traits: [random]          # what the schema does not say; see TRAITS there
      builder: plus             # the C++ function's name, if not the operator's
      expr: "self + alpha * other"   # what it computes of each element, see opgen/expressions.py and graph/expression.h; a
                                # pointwise operator must have one, or `none` and a `reason`
      expr_types: [float, int]  # in which compute types that holds, of float, int, bool; else float and int, as far as
                                # all its functions have them

An error names file, line and field.
"""

import argparse
import pathlib
import sys

import jinja2

from opgen import entries
from opgen.bindings import operators
from opgen.builders import builders
from opgen.entries import BadEntry, collect
from opgen.expressions import expressions, node_text
from opgen.page import groups

TEMPLATES = pathlib.Path(__file__).resolve().parent / "opgen"
OUTPUTS = (
    "graph/generated/op_ids.h",
    "graph/generated/op_table.cpp",
    "graph/generated/builders.h",
    "graph/generated/builders.cpp",
    "graph/generated/expressions.cpp",
    "python/framejit/ops.py",
    "python/framejit/ops.pyi",
    "docs/ops.md",
)


def render():
    """{file: text}, and the rows that they are made from."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    rows = collect()
    found = expressions(rows)
    facts = {
        "rows": rows,
        "builders": builders(rows),
        "expressions": found,
        "groups": groups(rows, found),
        "node_text": node_text,
        "operators": operators(rows),
    }
    return {o: environment.get_template(o.rpartition("/")[2] + ".jinja").render(facts) for o in OUTPUTS}, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed files instead of writing")
    options = parser.parse_args()
    try:
        texts, rows = render()
    except BadEntry as error:
        print(error, file=sys.stderr)
        return 1
    status = 0
    for name, text in texts.items():
        path = entries.ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        if options.check:
            print(f"{name}: differs from graph/ops/*.yaml; run tools/gen_ops.py", file=sys.stderr)
            status = 1
        else:
            path.write_text(text)
    native = sum(1 for r in rows if r["infer"])
    print(f"{len(rows)} operators, {native} with native inference")
    return status


if __name__ == "__main__":
    sys.exit(main())
