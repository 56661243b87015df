#!/usr/bin/env python3
"""Runs PyTorch's own operator samples eagerly and under to_static, and writes docs/operators.md.

    <python of a cell> tools/operator_table.py            run all, write docs/operators/<cell>.json and the table
    <any python with jinja2> tools/operator_table.py --render   the table alone, from the committed accounts

framejit must be importable there, and expecttest, which PyTorch's database imports. Each operator runs in a process of
its own. All samples take about ten minutes.
"""

import argparse
import collections
import pathlib
import sys

import jinja2

import accounts

ACCOUNTS = accounts.ROOT / "docs" / "operators"
TABLE = accounts.ROOT / "docs" / "operators.md"
TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")
SECONDS = 600  # for one operator


def run_cell():
    """Run all operators here; returns the account of this Python and torch."""
    accounts.prepare()
    import operators

    rows = {}
    for op in operators.operators():
        name = operators.full_name(op)
        rows[name] = row = accounts.in_a_process(SECONDS, measure, op)
        for text in row.pop("texts", [row.get("error")]):
            print(f"{name}: {text}\n", file=sys.stderr)
    return {**accounts.this_cell(), "operators": rows}


def measure(op):
    import operators

    row, inference = operators.measure(op), operators.compare_inference(op)
    texts = row["differences"] + inference["differences"]
    row["differences"] = len(row["differences"])
    return {
        **row,
        "inferred": inference["inferred"],
        "inferred_wrong": len(inference["differences"]),
        "meta": inference["meta"],
        "wrong_meta": sorted(inference["wrong_meta"]),
        "errors": inference["errors"],
        "texts": texts,
    }


def cell_text(row):
    if row is None:
        return "–"
    if "error" in row:
        return f"**{row['error']}**"
    text = f"{row['captured']} of {row['samples']}"
    reasons = ", ".join(sorted(row["reasons"]))
    text += f" ({reasons})" if reasons else ""
    return text + (f" **{row['differences']} differences**" if row["differences"] else "")


def summary(account):
    rows = account["operators"].values()
    keys = ("samples", "captured", "again", "refused", "differences", "inferred", "inferred_wrong")
    counts = {key: sum(row.get(key, 0) for row in rows) for key in (*keys, "meta")}
    errors = collections.Counter()
    for row in rows:
        errors.update(row.get("errors", {}))
    return {
        "heading": heading(account),
        "operators": len(rows),
        "whole": sum("error" not in row and row["captured"] == row["samples"] for row in rows),
        "failed": sum("error" in row for row in rows),
        "wrong_meta": sorted({name for row in rows for name in row.get("wrong_meta", ())}),
        "errors": errors,
        **counts,
    }


def reasons(cells):
    """{reason: its samples in each cell}, the most frequent first."""
    totals = {}
    for column, account in enumerate(cells):
        for row in account["operators"].values():
            for reason, count in row.get("reasons", {}).items():
                totals.setdefault(reason, [0] * len(cells))[column] += count
    return dict(sorted(totals.items(), key=lambda item: -sum(item[1])))


def heading(account):
    return f"Python {account['python']}, torch {account['torch']}"


def render():
    cells = accounts.read_all(ACCOUNTS)
    names = list(dict.fromkeys(name for account in reversed(cells) for name in account["operators"]))
    text = jinja2.Template(TEMPLATE.read_text(), trim_blocks=True, keep_trailing_newline=True).render(
        headings=[heading(account) for account in cells],
        summaries=[summary(account) for account in cells],
        reasons=reasons(cells),
        rows=[(name, [cell_text(account["operators"].get(name)) for account in cells]) for name in sorted(names)],
    )
    TABLE.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", action="store_true", help="write the table from the accounts that are there")
    options = parser.parse_args()
    if not options.render:
        accounts.write(ACCOUNTS, run_cell())
    render()


if __name__ == "__main__":
    main()
