"""Tests in every mode of `framejit.to_static`, each beside eager. See docs/testing.md.

    from framejit import testing

    class TestNorm(testing.ToStaticTestCase):
        def setUp(self):
            self.x = torch.randn(4, 8)

        def test_norm(self):
            y = self.check(norm, self.x)
            self.assertEqual(y.shape, (4, 8))

        @testing.disable("full_graph_*", reason="prints")
        def test_report(self):
            self.check(report, self.x)

`test_norm` becomes `test_norm__sot_aten`, `test_norm__full_graph_aten` and so on. It works under unittest and pytest.
"""

import collections
import contextlib
import fnmatch
import functools
import os
import sys
import types
import unittest

import torch

import framejit
from framejit import _C, _api, _inspect
from framejit._shadow.account import Account
from framejit._shadow.snapshot import Snapshot
from framejit._shadow.surroundings import RandomState, Surroundings, Switches, seed_all

__all__ = ["Mode", "ToStaticTestCase", "disable", "expect_failure", "modes"]

ENVIRONMENT = "FRAMEJIT_TEST_MODES"

Mode = collections.namedtuple("Mode", ["name", "full_graph", "backend"])
Mode.__doc__ = "One way to call `to_static`: its name in the names of tests, and two arguments of to_static."

_Mark = collections.namedtuple("_Mark", ["fails", "modes", "reason"])


def modes():
    """All modes: graph breaks allowed ("sot_...") or refused ("full_graph_..."), with each back end.

    Returns:
        list of Mode
    """
    return [
        Mode("{}_{}".format(kind, backend), kind == "full_graph", backend)
        for kind in ("sot", "full_graph")
        for backend in _api.backend_names()
    ]


def _matching(patterns, where):
    """Names of the modes that one of the patterns fits. A pattern that fits none is an error."""
    names = [mode.name for mode in modes()]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError("{}: no mode {!r}; there are {}".format(where, pattern, ", ".join(names)))
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def _selected_modes():
    patterns = os.environ.get(ENVIRONMENT, "").replace(",", " ").split() or ["*"]
    chosen = _matching(patterns, ENVIRONMENT)
    return [mode for mode in modes() if mode.name in chosen]


def disable(*patterns, reason):
    """Decorator of a test method or class: in these modes the test is skipped.

    Args:
        patterns: names of modes, or patterns of them such as "full_graph_*"; none means all.
        reason: why, in words.
    """
    return _marking(_Mark(False, _matching(patterns or ["*"], "disable"), reason))


def expect_failure(*patterns, reason):
    """Decorator of a test method or class: in these modes the test must fail. Where it passes, it fails.

    Args:
        patterns: names of modes, or patterns of them such as "full_graph_*"; none means all.
        reason: why, in words.
    """
    return _marking(_Mark(True, _matching(patterns or ["*"], "expect_failure"), reason))


def _marking(mark):
    if not isinstance(mark.reason, str) or not mark.reason:
        raise TypeError("a reason must be given in words")

    def decorate(target):
        if not isinstance(target, type):
            target._framejit_marks = getattr(target, "_framejit_marks", ()) + (mark,)
            return target
        if not issubclass(target, ToStaticTestCase):
            raise TypeError("{!r} is no ToStaticTestCase".format(target))
        target._framejit_marks = target._framejit_marks + (mark,)
        for name in dir(target):
            made_from = getattr(getattr(target, name), "_framejit_made_from", None)
            if made_from:
                setattr(target, name, _make_case(target, name, *made_from))
        return target

    return decorate


def _make_case(cls, name, method, mode):
    """The test of one mode: a copy of the method with its own marks."""
    marks = cls._framejit_marks + getattr(method, "_framejit_marks", ())
    fitting = [mark for mark in marks if mode.name in mark.modes]
    case = _copied(method)
    for mark in fitting:
        if mark.fails:
            case = unittest.expectedFailure(_explained(case, mark.reason))
    for mark in fitting:
        if not mark.fails:
            case = unittest.skip("{}: {}".format(mode.name, mark.reason))(case)
    case.__name__ = name
    case.__qualname__ = "{}.{}".format(cls.__qualname__, name)
    case._framejit_made_from = (method, mode)
    return case


def _copied(method):
    copy = types.FunctionType(
        method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__
    )
    functools.update_wrapper(copy, method)
    copy.__kwdefaults__ = method.__kwdefaults__
    return copy


def _explained(method, reason):
    """The method, its failure under the reason for which it is expected."""

    @functools.wraps(method)
    def case(self, *args, **kwargs):
        try:
            method(self, *args, **kwargs)
        except unittest.SkipTest:
            raise
        except Exception as error:
            raise AssertionError("expected failure: {}".format(reason)) from error

    return case


class ToStaticTestCase(unittest.TestCase):
    """A test case whose methods `test_*` run once in each mode of `to_static`.

    The mode is active before `setUp` runs. Each case starts with framejit enabled, without captures, and with the
    random generators seeded; afterwards generators and global switches (`enable_to_static`, grad mode, default dtype
    and device, autocast, ...) are as before. A case that leaves such a switch changed fails.

    The environment variable FRAMEJIT_TEST_MODES picks modes, by name or pattern: `full_graph_aten`, `sot_*`.

    Attributes:
        mode: the Mode of the case that runs.
        counts: what the compiled calls of the last `check` added to `framejit.stats()`.
        seed: of all random generators at the start of a case. A class may set another.
    """

    mode = None
    counts = None
    seed = 0
    _framejit_marks = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in dir(cls):
            if name.startswith(unittest.TestLoader.testMethodPrefix):
                cls._replace_by_cases(name)

    @classmethod
    def _replace_by_cases(cls, name):
        method = getattr(cls, name)
        if method is None:  # the way to take an inherited test out
            for mode in modes() if name in vars(cls) else ():
                setattr(cls, "{}__{}".format(name, mode.name), None)
        if not isinstance(method, types.FunctionType) or hasattr(method, "_framejit_made_from"):
            return
        if name in vars(cls):
            delattr(cls, name)
        if hasattr(cls, name):
            setattr(cls, name, None)  # no loader takes what cannot be called
        for mode in _selected_modes():
            # Two underscores: test_a in one mode is never the beginning of what test_a_b becomes.
            case = "{}__{}".format(name, mode.name)
            setattr(cls, case, _make_case(cls, case, method, mode))

    def to_static(self, fn):
        """`framejit.to_static` with the options of the mode that runs."""
        return framejit.to_static(fn, full_graph=self.mode.full_graph, backend=self.mode.backend)

    def check(self, fn, /, *args, **kwargs):
        """Call `fn` eagerly once and compiled twice, each time from the same state, and compare.

        Compared are the results, bit for bit, with their identities, strides and histories; mutations of arguments,
        globals, closures and attributes; output; random generators; torch's switches; the exception with its lines.

        Args:
            fn: a function, a module, or what `self.to_static` returned, which keeps its captures from check to check.
            args, kwargs: of the call. What a run changes is put back before the next.

        Returns:
            What one call returns. Its effects stay, and an exception that eager raises too is raised.

        Raises:
            AssertionError: a difference; the message has its lines.
            framejit.GraphBreakError: the graph breaks in a mode that refuses it.
            ValueError: something reachable cannot be put back, such as an iterator. Make it inside `fn`.
        """
        with self._compiled(fn) as compiled:
            run = self._compare(compiled, args, kwargs)
        sys.stdout.write(run.printed)
        if run.raised is not None:
            raise run.raised
        return run.result

    def assertCaptured(self, graphs=1, breaks=0):
        """The last `check` captured so many graphs and breaks, and its second call ran what was captured."""
        expected = {"graphs": graphs, "breaks": breaks, "fallbacks": 0}
        found = {name: self.counts[name] for name in expected}
        self.assertEqual(found, expected, "of {}".format(self.counts))
        self.assertGreater(self.counts["hits"], 0)

    @contextlib.contextmanager
    def _compiled(self, fn):
        """What to call: eager while framejit is disabled."""
        if isinstance(fn, torch.nn.Module) and "_compiled_call_impl" not in vars(fn):
            self.to_static(fn)
            try:
                yield fn
            finally:
                del fn._compiled_call_impl
        elif isinstance(fn, (torch.nn.Module, framejit.StaticFunction)):
            yield fn
        else:
            yield self.to_static(fn)

    def _compare(self, compiled, args, kwargs):
        snapshot, surroundings = Snapshot(compiled, *args, *kwargs.values()), Surroundings()
        with framejit.enable_to_static_guard(False):
            eager = Account(compiled, args, kwargs, snapshot)
        lost = snapshot.lost + snapshot.lost_by_run() + surroundings.lost_by_run()
        if lost:
            raise ValueError("cannot be put back for a second run: {}".format(", ".join(sorted(set(lost)))))
        before = _C.stats()
        for when in ("first", "second"):
            snapshot.restore()
            surroundings.restore()
            run = Account(compiled, args, kwargs, snapshot)
            if isinstance(run.raised, framejit.GraphBreakError) and type(run.raised) is not type(eager.raised):
                raise run.raised
            difference = eager.difference(run)
            if difference:
                raise self.failureException(
                    "{}: the {} compiled call differs from eager\n{}".format(self.mode.name, when, difference)
                ) from run.raised
        self.counts = _inspect._difference(before, _C.stats())
        return run

    def run(self, result=None):
        """See unittest.TestCase."""
        with self._in_mode():
            return super().run(result)

    def debug(self):
        """See unittest.TestCase."""
        with self._in_mode():
            super().debug()

    @contextlib.contextmanager
    def _in_mode(self):
        made_from = getattr(getattr(self, self._testMethodName, None), "_framejit_made_from", None)
        if made_from is None:
            raise TypeError("{} was not made for a mode".format(self.id()))
        self.mode = made_from[1]
        outer, random_state = Switches(), RandomState()
        framejit.enable_to_static(True)
        framejit.reset()
        seed_all(self.seed)
        self.addCleanup(self._fail_on_leak, Switches())  # the first to be added runs last
        try:
            yield
        finally:
            outer.restore()
            random_state.restore()

    def _fail_on_leak(self, state):
        changes = state.changes()
        if changes:
            self.fail("leaves behind: {}".format("; ".join(changes)))
