"""Accounts: what a tool measured in one cell of the matrix, kept as JSON under docs/ and rendered from there.

An account has `python`, `torch` and groups of rows: {group: {row's name: row}}.
"""

import json
import multiprocessing
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_RESULT = "no result"


def prepare():
    """Makes the tests' packages importable here. An internal failure is to be a row, not a silent eager call."""
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    os.environ["FRAMEJIT_STRICT"] = "1"
    import torch

    torch.set_num_threads(1)


def in_a_process(seconds, run, *args):
    """What `run(*args)` returns in a fork of this process, or {"error": how that one ended}."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child():
        sender.send(run(*args))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    sender.close()
    answer = {"error": f"{NO_RESULT} in {seconds} s"}
    try:
        if receiver.poll(seconds):
            answer = receiver.recv()
    except EOFError:
        process.join()
        answer = {"error": f"the process ended with {process.exitcode}"}
    if process.is_alive():
        process.join(5)
        process.kill()
    process.join()
    return answer


def this_cell():
    import torch

    return {"python": "{}.{}".format(*sys.version_info[:2]), "torch": torch.__version__.partition("+")[0]}


def path_of(folder, account):
    return folder / "py{}-torch{}.json".format(account["python"].replace(".", ""), account["torch"])


def write(folder, account):
    """One row a line, so that a change of one is a change of one line."""
    parts = []
    for key, value in account.items():
        if not isinstance(value, dict):
            parts.append(f'  "{key}": {json.dumps(value)}')
            continue
        lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items()]
        if lines:
            parts.append(f'  "{key}": {{\n' + ",\n".join(lines) + "\n  }")
    folder.mkdir(exist_ok=True)
    path_of(folder, account).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def read_all(folder):
    """The accounts of all cells, oldest Python first."""
    return sorted((json.loads(path.read_text()) for path in folder.glob("*.json")), key=_version_key)


def _version_key(account):
    return [int(part) for text in (account["python"], account["torch"]) for part in text.split(".")]
