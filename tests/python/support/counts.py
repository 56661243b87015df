"""What framejit did during a block of code, as differences of `framejit.stats()`.

A passing result alone never proves that the compiled path ran, so every comparison also asserts counts. An
expected count is an exact int, `at_least(n)`, `at_most(n)`, or None for "not asserted".
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import metadata

import framejit

from .skip_list import read, reason_for


def _counts_left_open():
    """{id: reason} of the lists for all Pythons, for this one, and for this torch."""
    folder = os.path.dirname(os.path.abspath(__file__))
    torch = ".".join(metadata.version("torch").split(".")[:2])
    entries = {}
    for which in ("", "_py{}{}".format(*sys.version_info[:2]), f"_torch{torch}"):
        entries.update(read(os.path.join(folder, f"counts_left_open{which}.txt")))
    return entries


COUNTS_LEFT_OPEN = _counts_left_open()
_found_wrong = set()  # ids of listed tests in which some count was not the expected one

TOTALS = ("captures", "graphs", "ops", "breaks", "fallbacks", "hits", "misses")


class at_least:
    """An expected count with a lower bound only."""

    def __init__(self, bound: int):
        self.bound = bound

    def __eq__(self, other):
        return isinstance(other, int) and other >= self.bound

    def __hash__(self):
        return hash(("at_least", self.bound))

    def __repr__(self):
        return f"at least {self.bound}"


class at_most:
    """An expected count with an upper bound only."""

    def __init__(self, bound: int):
        self.bound = bound

    def __eq__(self, other):
        return isinstance(other, int) and other <= self.bound

    def __hash__(self):
        return hash(("at_most", self.bound))

    def __repr__(self):
        return f"at most {self.bound}"


class counting:
    """Context manager; after the block, `.captures`, `.graphs`, ... are what the block added to the totals.

    The collector waits: it calls functions of others (gc.callbacks), which would be captured and counted too.
    """

    def __enter__(self):
        self._collects = gc.isenabled()
        gc.disable()
        self._before = framejit.stats()
        return self

    def __exit__(self, *unused):
        after = framejit.stats()
        if self._collects:
            gc.enable()
        self.break_reasons = {
            reason: count - self._before["break_reasons"].get(reason, 0)
            for reason, count in after["break_reasons"].items()
            if count != self._before["break_reasons"].get(reason, 0)
        }
        self.capture_s = after["capture_s"] - self._before["capture_s"]
        for key in TOTALS:
            setattr(self, key, after[key] - self._before[key])

    def as_dict(self):
        return {key: getattr(self, key) for key in TOTALS}


def _is_left_open():
    """Whether the test that runs, in which a count is wrong, is listed. Its results are compared with eager all the same."""
    test_id = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if not reason_for(test_id, COUNTS_LEFT_OPEN):
        return False
    _found_wrong.add(test_id)
    return True


def left_open_without_need(test_id):
    """Whether the test, which has passed, is listed though all its counts were as asked."""
    return reason_for(test_id, COUNTS_LEFT_OPEN) is not None and test_id not in _found_wrong


def check_counts(counted: counting, when: str = "", **expected):
    """Assert that each named total of a finished `counting` block is the expected one."""
    wrong = [
        f"{key}: expected {want}, got {getattr(counted, key)}"
        for key, want in expected.items()
        if want is not None and not want == getattr(counted, key)
    ]
    if wrong and not _is_left_open():
        raise AssertionError(
            f"{when or 'counts'}: {'; '.join(wrong)} (all: {counted.as_dict()}, breaks: {counted.break_reasons})"
        )


class expect_counts(counting):
    """`with expect_counts(captures=0, hits=at_least(1)):` runs the block and asserts what it added."""

    def __init__(self, when: str = "", **expected):
        self.when = when
        self.expected = expected

    def __exit__(self, kind, *unused):
        super().__exit__(kind, *unused)
        if kind is None:
            check_counts(self, self.when, **self.expected)


def expect_capture(when: str = ""):
    """The block must capture (a cold call or a guard miss), and nothing may fall back."""
    return expect_counts(when, captures=at_least(1), misses=at_least(1), fallbacks=0)


def expect_hit(when: str = ""):
    """The block must be served from the cache alone."""
    return expect_counts(when, captures=0, misses=0, hits=at_least(1), fallbacks=0)


def check_captured(compiled, *operators: str):
    """Assert that each named operator stands in one of the function's graphs."""
    text = "\n".join(str(graph) for graph in compiled.graphs)
    missing = [name for name in operators if f"aten.{name}" not in text]
    if missing and not _is_left_open():
        raise AssertionError(f"not captured: {missing}; graphs:\n{text}")


def check_not_captured(compiled, *operators: str):
    """Assert that no graph of the function has one of these operators."""
    text = "\n".join(str(graph) for graph in compiled.graphs)
    present = [name for name in operators if f"aten.{name}" in text]
    if present:
        raise AssertionError(f"captured: {present}; graphs:\n{text}")


def check_text(what: str, value, *parts: str):
    """Assert that a readable account (a str, or a list of things that print) has all these parts in it."""
    text = value if isinstance(value, str) else "\n".join(map(str, value))
    missing = [part for part in parts if part not in text]
    if missing:
        raise AssertionError(f"{what} does not mention {missing}:\n{text}")


def check_equal(what: str, value, expected):
    """Assert equality of something that only the real package can know."""
    if value != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {value!r}")


def check_true(what: str, value):
    """Assert the truth of something that only the real package can know."""
    if not value:
        raise AssertionError(f"{what}: {value!r}")


def check_raises(kind, fn, *args, parts=()):
    """Assert that framejit itself raises `kind` for this call, with all `parts` in the message."""
    try:
        fn(*args)
    except kind as error:
        check_text("the message", str(error), *parts)
    else:
        raise AssertionError(f"{kind} was not raised")
