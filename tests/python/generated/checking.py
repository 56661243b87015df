"""Why a generated program is wrong: where its compiled runs differ from eager, or that captures do not end."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import itertools
import math
import operator
import random
import re
import warnings
import zlib

import numpy
import torch

import framejit
from framejit._shadow.snapshot import Snapshot
from support.counts import counting
from support.same_as_eager import Case
from support.skip_list import is_shadowed
from support.source import define_function

from .classes import MADE_IN_EACH_CALL

SETTLING_CALLS = 4
TIMES_TO_COME_BACK = 2
OTHER_IN_EACH_CALL = MADE_IN_EACH_CALL | {"shuffle"}  # constructs with which each call brings something new
MODULES = (collections, contextlib, copy, dataclasses, enum, framejit, functools, itertools, math, numpy, operator)
MODULES += (random, torch, zlib)


class Failure(AssertionError):
    """A program that is wrong. `kind` is the same for programs that show one bug, as far as what they show tells.

    It begins with the property that does not hold: EQUAL, the compiled runs do as eager does, or SETTLES, after a few
    calls nothing is captured any more.
    """

    kind = None


@functools.lru_cache(maxsize=None)
def failure_type(kind):
    """One type for each kind: it is by types that Hypothesis tells bugs apart."""
    return type("Failure", (Failure,), {"kind": kind})


def difference_kind(error):
    """Of an assertion about a difference: the internal error in it, or the first lines that differ, without values."""
    if isinstance(error.__cause__, framejit.InternalError):
        return "internal error: " + without_values(str(error.__cause__))
    removed, added = (re.search(rf"^\{sign}(?!\{sign}\{sign} )(.+)", str(error), re.M) for sign in "-+")
    return " / ".join(without_values(line.group(1)) if line else "nothing" for line in (removed, added))


def without_values(text):
    return re.sub(r"\b[0-9a-f]{16}\b|0x\w+|\d+", "N", text.partition("\n")[0])[:80]


class RepeatedCase(Case):
    """A program that does the same each time, so that one eager run stands for all with gradients, one for all without.

    What it did is kept as text: its results and its exception must not live on.
    """

    def __init__(self, fn, compiled, args):
        super().__init__(fn, compiled, args, {}, None, None, None, 0)
        self.accounts = {}
        self.start = Snapshot(fn, *args)

    def begin_anew(self):
        """Let end what is left of the last run, a generator that an exception's frame holds say: no part of the next."""
        gc.collect()
        self.start.restore()

    def _snapshot(self, args, kwargs):
        return self.start  # each run begins in that state

    def _eager_account(self, change):
        mode = torch.is_grad_enabled()
        if mode not in self.accounts:
            self.accounts[mode] = super()._eager_account(change)
            self.accounts[mode].result = self.accounts[mode].raised = None
            self.begin_anew()
        return self.accounts[mode]

    def _difference(self, eager, compiled, change):
        difference = super()._difference(eager, compiled, change)
        if not difference:
            return difference
        # Runs with other arguments may have filled caches of the library, which no snapshot puts back.
        self.accounts.clear()
        return super()._difference(self._eager_account(change), compiled, change)

    def check_that_eager_repeats(self):
        expected = self._eager_account(None)
        difference = expected.difference(self._account(self.fn, None))
        if difference:
            raise failure_type("the program differs from itself")(difference)


class Runs:
    """Runs of one program with one set of arguments, each beside eager."""

    def __init__(self, fn, compiled, args, totals):
        self.case = RepeatedCase(fn, compiled, args)
        self.totals = totals

    def run(self, when):
        """The counts of a compiled run that does as eager does."""
        self.case.begin_anew()
        with counting() as counted:
            try:
                self.case.run(when, check_raises=False)
            except AssertionError as error:
                raise failure_type("EQUAL: " + difference_kind(error))(str(error)) from error.__cause__
        self.totals.update({name: getattr(counted, name) for name in ("captures", "hits", "fallbacks", "breaks")})
        return counted

    def settle(self, when):
        """Run until nothing is captured, a few times at most. Why it does not settle, or None."""
        for call in range(SETTLING_CALLS):
            counted = self.run(f"{when}, call {call + 1}")
            if not counted.captures:
                break
        return why_not_served(counted, when)


def come_back(first, others, times):
    """Run `first` again, with the others between, until it captures nothing. Why it does after so many times, or None.

    The first time it may: code found idle meanwhile is left to the interpreter, and what it calls is new to captures.
    """
    when = "back to the first arguments"
    for time in range(times):
        counted = first.run(f"{when}, time {time + 1}")
        if not counted.captures:
            break
        for other in others:
            other.run("in between")
    return why_not_served(counted, when)


def why_not_served(counted, when):
    """Why a call was not served from the cache, or None."""
    if counted.fallbacks or (counted.hits and not counted.captures):
        return None
    kind = "SETTLES: captures do not end" if counted.captures else "SETTLES: nothing is served from the cache"
    return failure_type(kind)(f"{when}: {counted.as_dict()}, breaks: {counted.break_reasons}")


def arguments(program, n, size, *more):
    x = torch.tensor([0.3, -1.2, 2.5, 0.7, -0.4])[:size].clone().requires_grad_(program.requires_grad)
    y = torch.tensor([1.0, 0.5, -0.5, -2.0, 0.9])[:size].clone()
    return x, y, n, [torch.ones(size), 5, *(y if item == "y" else item for item in more)]


def check_program(program):
    """Run a program cold, warm, after guard misses and back. The totals of framejit's counts, or a Failure."""
    gc.freeze()  # a collection then looks at the program's own objects alone
    try:
        return _check_program(program)
    finally:
        gc.unfreeze()


def _check_program(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler, about what the grammar writes
        fn = define_function(program.source, LOG=[], **{module.__name__: module for module in MODULES})
    framejit.reset()
    compiled, totals = framejit.to_static(fn), collections.Counter()
    first, other, longer = (
        Runs(fn, compiled, arguments(program, *given), totals) for given in ((3, 4), (4, 4, 7, "y"), (2, 5))
    )
    first.case.check_that_eager_repeats()
    unsettled = [first.settle("cold")]
    with torch.set_grad_enabled(False):
        first.run("without gradients")
    unsettled += [other.settle("with other containers"), longer.settle("with longer tensors")]
    # Shadowed calls are made twice, and what the eager run makes and drops is new to the compiled one.
    settles = not is_shadowed() and not OTHER_IN_EACH_CALL.intersection(program.constructs)
    unsettled.append(come_back(first, (other, longer), TIMES_TO_COME_BACK if settles else 1))
    for failure in unsettled:
        if failure and settles:
            raise failure
    return totals
