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
import multiprocessing
import os
import pathlib
import sys

import jinja2

ROOT = pathlib.Path(__file__).resolve().parent.parent
ACCOUNTS = ROOT / "docs" / "constructs"
TABLE = ROOT / "docs" / "constructs.md"
TEMPLATE = pathlib.Path(__file__).with_suffix(".md.jinja")
EVERY_CALL = 4  # the `captures` of a construct that each call captures anew
NO_RESULT = "no result"
SECONDS = 60  # for one construct


def in_a_process(run, *args):
    """What `run(*args)` returns in a fork of this process, or how that one ended."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child():
        sender.send(run(*args))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    sender.close()
    answer = {"right": False, "error": f"{NO_RESULT} in {SECONDS} s"}
    try:
        if receiver.poll(SECONDS):
            answer = receiver.recv()
    except EOFError:
        process.join()
        answer = {"right": False, "error": f"the process ended with {process.exitcode}"}
    if process.is_alive():
        process.join(5)
        process.kill()
    process.join()
    return answer


def run_cell(beside):
    """Run all constructs here; returns the account of this Python and torch."""
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    os.environ["FRAMEJIT_STRICT"] = "1"  # an internal failure is a row, not a silent eager call
    import torch

    import constructs

    torch.set_num_threads(1)
    rows, others = {}, {}
    for construct in constructs.ALL:
        rows[construct.name] = {"group": construct.group, **in_a_process(constructs.measure, construct)}
        complain(construct.name, rows[construct.name])
    if beside:
        constructs.load_torch_compile()
        for construct in constructs.ALL:
            others[construct.name] = in_a_process(constructs.measure_torch_compile, construct)
    account = {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "torch": torch.__version__.partition("+")[0],
        "constructs": rows,
    }
    return {**account, "torch_compile": others} if beside else account


def complain(name, row):
    complaint = row.pop("complaint", row.get("error"))
    if not row.get("both_sides", True):
        complaint = complaint or "no graph on one of the sides of the break"
    if complaint:
        print(f"{name}: {complaint}\n", file=sys.stderr)


def cell_name(account):
    return "py{}-torch{}".format(account["python"].replace(".", ""), account["torch"])


def write_account(account):
    """One construct a line, so that a change of one is a change of one line."""
    path = ACCOUNTS / f"{cell_name(account)}.json"
    if path.exists():
        known = json.loads(path.read_text())
        account = {**account, "torch_compile": account.get("torch_compile", known.get("torch_compile", {}))}
    parts = [f'  "{key}": {json.dumps(account[key])}' for key in ("python", "torch")]
    for key in ("constructs", "torch_compile"):
        lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in account.get(key, {}).items()]
        if lines:
            parts.append(f'  "{key}": {{\n' + ",\n".join(lines) + "\n  }")
    ACCOUNTS.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def version_key(account):
    return [int(part) for text in (account["python"], account["torch"]) for part in text.split(".")]


def columns(accounts):
    """(heading, rows) of each column: framejit in every cell, then torch.compile where it was run beside."""
    newest = accounts[0]["torch"]
    for account in accounts:
        extra = "" if account["torch"] == newest else f", torch {account['torch']}"
        yield f"{account['python']}{extra}", account["constructs"]
    for account in accounts:
        if account.get("torch_compile"):
            yield f"torch.compile {account['torch']}", account["torch_compile"]


def cell_text(row):
    if row is None:
        return "–"
    if "graphs" not in row:
        return "**hangs**" if row["error"].startswith(NO_RESULT) else "**crash**"
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
    accounts = sorted((json.loads(path.read_text()) for path in ACCOUNTS.glob("*.json")), key=version_key)
    headed = list(columns(accounts))
    names = max((account["constructs"] for account in accounts), key=len)
    groups = {}
    for name, row in names.items():
        cells = [cell_text(rows.get(name)) for _, rows in headed]
        groups.setdefault(row["group"], []).append((name.replace("|", "\\|"), cells))
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
        write_account(run_cell(options.beside))
    render()


if __name__ == "__main__":
    main()
