#!/usr/bin/env python3
"""Runs the constructs of tests/python/constructs and writes docs/constructs.md.

    <python of a cell> tools/construct_table.py            run all, write docs/constructs/<cell>.json and the table
    <python of a cell> tools/construct_table.py --beside   torch.compile's account as well
    <any python with jinja2> tools/construct_table.py --render   the table alone, from the committed accounts

framejit must be importable there. Each construct runs in a process of its own, so that one that crashes is a row of
the table, and so that no row depends on another.
"""

import argparse
import json
import pathlib
import sys

import jinja2

import accounts

ACCOUNTS = accounts.ROOT / "docs" / "constructs"
TABLE = accounts.ROOT / "docs" / "constructs.md"
TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")
EVERY_CALL = 4  # the `captures` of a construct that each call captures anew
SECONDS = 60  # for one construct


def run_cell(beside):
    """Run all constructs here; returns the account of this Python and torch."""
    accounts.prepare()
    import constructs

    rows, others = {}, {}
    for construct in constructs.ALL:
        rows[construct.name] = {"group": construct.group, **outcome(constructs.measure, construct)}
        complain(construct.name, rows[construct.name])
    if beside:
        constructs.load_torch_compile()
        for construct in constructs.ALL:
            others[construct.name] = outcome(constructs.measure_torch_compile, construct)
    account = {**accounts.this_cell(), "constructs": rows}
    return {**account, "torch_compile": others or known_beside(account)}


def outcome(measure, construct):
    return {"right": False, **accounts.in_a_process(SECONDS, measure, construct)}


def known_beside(account):
    """torch.compile's rows of the last run that had them."""
    path = accounts.path_of(ACCOUNTS, account)
    return json.loads(path.read_text()).get("torch_compile", {}) if path.exists() else {}


def complain(name, row):
    complaint = row.pop("complaint", row.get("error"))
    if not row.get("both_sides", True):
        complaint = complaint or "no graph on one of the sides of the break"
    if complaint:
        print(f"{name}: {complaint}\n", file=sys.stderr)


def columns(cells):
    """(heading, rows) of each column: framejit in every cell, then torch.compile where it was run beside."""
    newest = cells[0]["torch"]
    for account in cells:
        extra = "" if account["torch"] == newest else f", torch {account['torch']}"
        yield f"{account['python']}{extra}", account["constructs"]
    for account in cells:
        if account.get("torch_compile"):
            yield f"torch.compile {account['torch']}", account["torch_compile"]


def cell_text(row):
    if row is None:
        return "–"
    if "graphs" not in row:
        return "**hangs**" if row["error"].startswith(accounts.NO_RESULT) else "**crash**"
    text = f"{row['graphs']} / {row['breaks']}" + (" ↻" if row.get("captures") == EVERY_CALL else "")
    if not row["right"]:
        text += " **wrong**"
    if row.get("both_sides") is False:
        text += " one side"
    return text


def summary(heading, rows):
    broken = [row for row in rows.values() if row.get("both_sides") is not None]
    return {
        "heading": heading,
        "all": len(rows),
        "right": sum(row["right"] for row in rows.values()),
        "whole": sum(row.get("graphs", 0) == 1 and row["breaks"] == 0 for row in rows.values()),
        "none": sum(row.get("graphs", 0) == 0 for row in rows.values()),
        "graphs": sum(row.get("graphs", 0) for row in rows.values()),
        "breaks": sum(row.get("breaks", 0) for row in rows.values()),
        "sides": f"{sum(row['both_sides'] for row in broken)} of {len(broken)}",
    }


def render():
    cells = accounts.read_all(ACCOUNTS)
    headed = list(columns(cells))
    names = max((account["constructs"] for account in cells), key=len)
    groups = {}
    for name, row in names.items():
        texts = [cell_text(rows.get(name)) for _, rows in headed]
        groups.setdefault(row["group"], []).append((name.replace("|", "\\|"), texts))
    text = jinja2.Template(TEMPLATE.read_text(), trim_blocks=True, keep_trailing_newline=True).render(
        count=len(names),
        headings=[heading for heading, _ in headed],
        summaries=[summary(heading, rows) for heading, rows in headed],
        groups=groups,
    )
    TABLE.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", action="store_true", help="run torch.compile on the same constructs too")
    parser.add_argument("--render", action="store_true", help="write the table from the accounts that are there")
    options = parser.parse_args()
    if not options.render:
        accounts.write(ACCOUNTS, run_cell(options.beside))
    render()


if __name__ == "__main__":
    main()
