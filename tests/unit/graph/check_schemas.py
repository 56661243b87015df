#!/usr/bin/env python3
"""Compares the schemas of graph/ops/*.yaml with those of the installed torch.

An operator that this torch does not have is counted, not an error; one whose arguments differ is an error, because
inference rules read operands by position.
"""

import pathlib
import re
import sys

import torch

TABLE = pathlib.Path(__file__).resolve().parents[3] / "graph" / "generated" / "op_table.cpp"
ROW = re.compile(r'^     "((?:[^"\\]|\\.)*)",$', re.M)


def arguments(text):
    """Types and names, without defaults, which change between releases and matter to no rule."""
    text = text.replace("SymInt", "int")
    depth, out, begin = 0, [], 0
    inner = text[text.index("(") + 1 : text.rindex(") ->")]
    for i, c in enumerate(inner + ","):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            out.append(re.sub(r"=.*", "", inner[begin:i].strip()))
            begin = i + 1
    return out


def main():
    known = {}
    for schema in torch._C._jit_get_all_schemas():
        known[schema.name + ("." + schema.overload_name if schema.overload_name else "")] = str(schema)
    missing, wrong = [], []
    for text in ROW.findall(TABLE.read_text()):
        text = text.replace('\\"', '"')
        name = text[: text.index("(")]
        if name not in known:
            missing.append(name)
        elif arguments(text) != arguments(known[name]):
            wrong.append((text, known[name]))
    for ours, theirs in wrong:
        print(f"ours:   {ours}\ntorch:  {theirs}")
    print(f"torch {torch.__version__}: {len(wrong)} schemas differ, {len(missing)} not there: {' '.join(missing)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
