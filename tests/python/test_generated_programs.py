"""Generated programs do as eager does: cold, warm, after guard misses and back, and captures end after a few calls.

FRAMEJIT_GENERATED_PROGRAMS is how many programs run, FRAMEJIT_GENERATED_SEED which ones: each batch has a seed of its
own, and fails with the smallest program found for each kind of failure that no batch before it had.
FRAMEJIT_GENERATED_KEEP names a file that holds the program that runs, for one that crashes the process.
"""

import os
import sys
import time

import pytest

from generated.checking import check_program
from generated.search import Search
from generated.writer import ALL_CONSTRUCTS, Program

BATCH = 25
ORDINARY_COUNT = 500
COUNT = int(os.environ.get("FRAMEJIT_GENERATED_PROGRAMS", ORDINARY_COUNT))
SEED = int(os.environ.get("FRAMEJIT_GENERATED_SEED", "0"))
MIN_HITS = 10  # a program
MAX_SHARE_FALLEN_BACK = 0.1

search = Search(os.environ.get("FRAMEJIT_GENERATED_KEEP"))
started = time.monotonic()


LEAVES_A_GENERATOR = """
def f(x, y, n, items):
    import gc
    gc.collect()
    def steps(t):
        try:
            yield t.sin()
        finally:
            LOG.append("closed")
            items.append(n)
    it = steps(x)
    y = next(it) + y
    raise ValueError(len(LOG))
"""


def test_what_ends_after_a_run_is_no_part_of_the_next():
    check_program(Program(LEAVES_A_GENERATOR, (), requires_grad=False))


def totals():
    rate = search.programs / (time.monotonic() - started)
    again = "".join(f"\n    again {count} times: {kind}" for kind, count in search.seen_again.items())
    return f"{search.programs} programs, {rate:.1f} a second, {len(search.failures)} kinds of failures{again}"


@pytest.mark.parametrize("batch", range(-(-COUNT // BATCH)))
def test_batch(batch, capsys, monkeypatch):
    # pytest's own hook is Python code about tracebacks: captured in each call that ends a generator with an exception.
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    found = search.run(SEED * 100_000_000 + batch * 1000, min(BATCH, COUNT - batch * BATCH))
    if COUNT > ORDINARY_COUNT:
        with capsys.disabled():
            print("\n" + totals(), end=" ")
    texts = [f"{kind}\n{search.failures[kind][0]}\n{search.failures[kind][1]}" for kind in found]
    assert not found, "\n\n".join(texts)


def test_all_constructs_occur_and_compiled_code_runs():
    if search.programs < max(COUNT, ORDINARY_COUNT):
        pytest.skip("only some of the programs ran")
    missing = [name for name in ALL_CONSTRUCTS if not search.constructs[name]]
    assert not missing, f"no program has {missing}"
    assert search.totals["hits"] >= MIN_HITS * search.programs, search.totals
    assert search.totals["fallen_back"] <= MAX_SHARE_FALLEN_BACK * search.programs, search.totals
