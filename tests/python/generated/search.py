"""Searches for programs that are wrong, and makes those that are found small."""

from __future__ import annotations

import collections
import gc
import time

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded

from .checking import Failure, check_program
from .writer import programs

SHRINKING_SECONDS = 30


class Enough(BaseException):
    """Ends a search from inside."""


class Search:
    """Runs programs and keeps, for each kind of failure, the smallest program that shows it.

    Attributes:
        programs: how many different programs have run, those that only shrink another left out.
        constructs: how many of them have each construct.
        totals: of framejit's counts over all of them; `fallen_back` is how many programs fall back at all.
        failures: {kind: (program, failure)}
        seen_again: {kind: how often a program showed a failure that was known by then}
        keep: a file for the program that runs, which is there when it has crashed the process, or None.
    """

    def __init__(self, keep=None):
        self.keep = keep
        self.programs = 0
        self.constructs, self.totals = collections.Counter(), collections.Counter()
        self.failures, self.seen_again = {}, collections.Counter()
        self._sources = set()

    def run(self, seed, count):
        """Run `count` more programs. The new kinds of failures."""
        known, end = set(self.failures), self.programs + count
        while self.programs < end:
            self._search(seed, end)
            seed += 1
        gc.collect()  # what a frozen heap has outlived is looked at by no collection of Python's own
        return [kind for kind in self.failures if kind not in known]

    def _search(self, seed, end):
        """Until `end` programs have run, or a new kind of failure is found and its program as small as it gets."""
        known, deadline = set(self.failures), None

        @seeded(seed)
        @settings(
            max_examples=max(2 * (end - self.programs), 10),
            phases=[Phase.generate, Phase.shrink],
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(programs())
        def check(program):
            nonlocal deadline
            if deadline is None and program.source in self._sources:
                return
            if self.programs >= end if deadline is None else time.monotonic() > deadline:
                raise Enough
            try:
                self._check(program, shrinking=deadline is not None)
            except Failure as failure:
                if failure.kind in known:
                    self.seen_again[failure.kind] += deadline is None
                    return
                deadline = deadline or time.monotonic() + SHRINKING_SECONDS
                self._keep_smaller(failure.kind, program, failure)
                raise

        try:
            check()
        except Enough:
            pass
        except Exception:
            if deadline is None:
                raise

    def _check(self, program, shrinking):
        if self.keep:
            with open(self.keep, "w") as file:
                file.write(repr(program))
        if shrinking:
            check_program(program)
            return
        self.programs += 1
        self._sources.add(program.source)
        self.constructs.update(set(program.constructs))
        counts = check_program(program)
        self.totals.update(counts, fallen_back=bool(counts["fallbacks"]))

    def _keep_smaller(self, kind, program, failure):
        smallest = self.failures.get(kind)
        if smallest is None or len(program.source) < len(smallest[0].source):
            self.failures[kind] = (program, failure)
