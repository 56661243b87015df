"""Twins behave as the original: without sites, with sites that capture nothing, and when a segment leaves through any
exit, with the state that the original would have there.

The state comes from a run of the twin itself: at its m-th site, while that frame stands still, a second run (in the same twin, or in
resume code) is given the standing frame's locals and stack, and goes on from there; then the first run is abandoned."""
import gc
import random
import sys
import traceback
import types

import pytest

from framejit_bytecode import _core
from support import twin_corpus
from support.twin_corpus import CASES, log

NULL = _core.NULL
RETURN, NOTHING, FIRST_EXIT = 0, 1, 2
CORPUS_FILE = twin_corpus.__file__


class Abandon(BaseException):
    pass


class Shared:
    """What both runs see: the log, the contents of the function's free variables, and the global that a case makes."""

    def __init__(self, fn):
        self.log = list(log)
        self.cells = [(c, c.cell_contents) for c in fn.__closure__ or ()]
        self.names = fn.__globals__
        self.made = self.names.get("made", NULL)

    def restore(self):
        log[:] = self.log
        if self.made is NULL:
            self.names.pop("made", None)
        else:
            self.names["made"] = self.made
        for cell, contents in self.cells:
            cell.cell_contents = contents


def function_from(code, fn):
    new = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    return new


def outcome(fn, args):
    """(kind, value, log, lines of the traceback inside the corpus)"""
    shared = Shared(fn)
    try:
        value, kind, lines = repr(fn(*args)), "value", None
    except Abandon:
        raise
    except BaseException as e:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__) if f.filename == CORPUS_FILE]
        value, kind = str(e), type(e).__name__
    seen = list(log)
    shared.restore()
    return value, kind, seen, lines


class State:
    """A copy of a frame at a site."""

    def __init__(self, frame, depth, handled_slots):
        _, _, count, _ = frame.facts()
        self.locals = [frame.local(i) for i in range(count)]
        self.stack = [frame.stack(j) for j in range(depth)]
        self.handled_slots = list(handled_slots)
        self.handled = frame.handled() if handled_slots else None

    def write_locals(self, frame):
        for i, value in enumerate(self.locals):
            frame.set_local(i, value)

    def write_stack(self, frame, start, end):
        for j in range(start, end):
            frame.set_stack(j, self.stack[j])

    def switch_handlers(self, frame, left):
        """From a place whose handled slots are `left` to this one; before the stack is written."""
        entered = self.handled_slots
        same = 0
        while same < min(len(left), len(entered)) and left[same] == entered[same]:
            self.stack[left[same]] = frame.stack(left[same])  # what was handled outside belongs to that frame
            same += 1
        if len(left) > same:
            frame.set_handled(frame.stack(left[same]))
        if len(entered) > same:
            self.stack[entered[same]] = frame.handled()
        if entered:
            frame.set_handled(self.handled)


class Twin:
    def __init__(self, fn):
        self.fn = fn
        layout = _core.twin_layout(fn.__code__)
        assert layout["why_not_twin"] is None
        self.rows = layout["instructions"]
        self.sites = [i for i, row in enumerate(self.rows) if row["why_not_site"] is None]
        pending = [i for i, row in enumerate(self.rows) if row["why_not_pending"] is None]
        self.exits = [(i, 0) for i in self.sites] + [(i, 1) for i in pending]
        self.on_site = lambda i, frame: NOTHING
        self.on_take = self.on_resume_slot = self.on_pending = None
        self.segments = [(i, _core.FrameCall(lambda frame, i=i: self.reach(i, frame))) for i in self.sites]
        self.calls = [
            _core.FrameCall(lambda frame: self.on_take(frame)),
            _core.FrameCall(lambda frame: self.on_pending(frame)),
            _core.FrameCall(lambda frame: self.on_resume_slot(frame)),
        ]
        self.twin = function_from(_core.twin_build(fn.__code__, self.segments, self.exits, *self.calls), fn)
        self.resumes = {}

    def reach(self, i, frame):
        row = self.rows[i]
        described = frame.blocks() == row["blocks"] and all(frame.stack(j) is NULL for j in row["nulls"])
        return self.on_site(i, frame) if described or not row["varies"] else NOTHING

    def resume_function(self, exit_number):
        if exit_number not in self.resumes:
            code = _core.twin_build(self.fn.__code__, self.segments, self.exits, *self.calls, exit_number)
            new = function_from(code, self.fn)
            new.__defaults__ = (None,) * code.co_argcount
            new.__kwdefaults__ = dict.fromkeys(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
            self.resumes[exit_number] = new
        return self.resumes[exit_number]

    def resume(self, exit_number):
        function = self.resume_function(exit_number)
        return outcome(function, ())

    def depth(self, exit_):
        index, pending = exit_
        return self.rows[index]["pending_depth" if pending else "depth"]

    def hits(self, args):
        """The sites that a run passes, in order."""
        seen = []

        def on_site(i, frame):
            seen.append(i)
            return NOTHING

        self.on_site = on_site
        result = outcome(self.twin, args)
        return seen, result

    def at_hit(self, args, m, action):
        """Runs until the m-th site, calls action(State) while the frame stands there, and gives its result."""
        count = [0]
        got = []

        def on_site(i, frame):
            count[0] += 1
            if count[0] - 1 == m:
                state = State(frame, self.rows[i]["depth"], self.rows[i]["handled"])
                got.append(action(i, state))
                self.on_site = lambda i, frame: NOTHING
                raise Abandon
            return NOTHING

        self.on_site = on_site
        shared = Shared(self.fn)
        try:
            self.twin(*args)
        except BaseException:
            pass
        shared.restore()
        return got[0]

    def leave(self, frame, site, exit_number, state):
        """Writes what a segment writes that leaves `site` through this exit."""
        index, pending = exit_ = self.exits[exit_number]
        kept = _core.twin_kept_depth(self.fn.__code__, site, index, pending)
        depth = self.depth(exit_)
        state.switch_handlers(frame, self.rows[site]["handled"])
        state.write_locals(frame)
        self.drop_surplus(frame, site, kept)
        state.write_stack(frame, 0, kept)

        def on_take(frame):
            state.write_stack(frame, kept, depth)

        self.on_take = on_take
        return FIRST_EXIT + exit_number

    def drop_surplus(self, frame, site, kept):
        for j in range(kept, self.rows[site]["depth"]):
            if frame.stack(j) is NULL:
                frame.set_stack(j, None)

    def leave_handlers(self, frame, site):
        handled = self.rows[site]["handled"]
        if handled:
            frame.set_handled(frame.stack(handled[0]))

    def run_pending(self, index, state):
        """Does what instruction `index` would do, for calls."""
        operands = [v for v in state.stack[self.rows[index]["pending_depth"] :] if v is not NULL]
        return operands[0](*operands[1:])


TWINS = {}


def twin_of(fn):
    if fn not in TWINS:
        TWINS[fn] = Twin(fn)
    return TWINS[fn]


@pytest.fixture(autouse=True)
def nothing_handled():
    assert sys.exc_info() == (None, None, None)
    yield
    assert sys.exc_info() == (None, None, None)


EACH = [pytest.param(fn, call, id="%s-%d" % (fn.__name__, n)) for fn, calls in CASES for n, call in enumerate(calls)]


def same(got, want, lines=True):
    return got[:3] == want[:3] and (not lines or got[3] == want[3])


@pytest.mark.parametrize("fn, call", EACH)
def test_without_sites(fn, call):
    code = _core.twin_build(fn.__code__, [], [], None, None, None)
    assert code.co_name == fn.__code__.co_name and code.co_varnames == fn.__code__.co_varnames
    assert outcome(function_from(code, fn), call()) == outcome(fn, call())


@pytest.mark.parametrize("fn, call", EACH)
def test_sites_that_capture_nothing(fn, call):
    hits, got = twin_of(fn).hits(call())
    assert hits
    assert got == outcome(fn, call())


def sample(hits, limit, seed):
    rng = random.Random(seed)
    picks = list(range(len(hits)))
    return sorted(rng.sample(picks, limit)) if len(picks) > limit else picks


@pytest.mark.parametrize("fn, call", EACH)
def test_leaving_through_every_exit(fn, call):
    twin = twin_of(fn)
    want = outcome(fn, call())
    hits, _ = twin.hits(call())
    rng = random.Random(len(hits))
    for m in sample(hits, 40, 1):
        for site in {hits[0], rng.choice(hits), rng.choice(hits)}:

            def leave_there(target, state):
                there = Shared(fn)
                exit_number = twin.exits.index((target, 0))

                def on_site(i, frame):
                    if i != site:
                        return NOTHING
                    twin.on_site = lambda i, frame: NOTHING
                    there.restore()
                    return twin.leave(frame, site, exit_number, state)

                twin.on_site = on_site
                return outcome(twin.twin, call())

            got = twin.at_hit(call(), m, leave_there)
            # An exception that was raised before the exit has the first run's traceback.
            lines = not twin.rows[hits[m]]["handled"]
            assert same(got, want, lines), (site, hits[m], twin.rows[hits[m]])


@pytest.mark.parametrize("fn, call", EACH)
def test_resuming_everywhere(fn, call):
    twin = twin_of(fn)
    want = outcome(fn, call())
    hits, _ = twin.hits(call())
    for m in sample(hits, 25, 2):

        def resume_there(target, state):
            there = Shared(fn)
            exit_number = twin.exits.index((target, 0))

            def on_resume_slot(frame):
                state.switch_handlers(frame, [])
                state.write_locals(frame)
                state.write_stack(frame, 0, len(state.stack))

            twin.on_resume_slot = on_resume_slot
            twin.on_site = lambda i, frame: NOTHING
            return twin.resume(exit_number)

        got = twin.at_hit(call(), m, resume_there)
        assert same(got, want, not twin.rows[hits[m]]["handled"]), (hits[m], twin.rows[hits[m]])


@pytest.mark.parametrize("fn, call", EACH)
def test_returning_from_every_site(fn, call):
    twin = twin_of(fn)
    hits, _ = twin.hits(call())
    for site in sorted(set(hits)):
        for answer in (RETURN, FIRST_EXIT + len(twin.exits)):

            def on_site(i, frame):
                if i != site:
                    return NOTHING
                twin.leave_handlers(frame, site)
                twin.drop_surplus(frame, site, 0)
                return answer

            twin.on_site = on_site
            twin.on_take = lambda frame: "taken"
            kind = outcome(twin.twin, call())[:2]
            assert kind == (repr("taken"), "value"), site
            assert sys.exc_info() == (None, None, None)

    def fails(frame):
        raise LookupError("nothing to take")

    twin.on_take = fails
    for site in sorted(set(hits)):

        def on_site(i, frame):
            if i != site:
                return NOTHING
            twin.leave_handlers(frame, site)
            twin.drop_surplus(frame, site, 0)
            return RETURN

        twin.on_site = on_site
        got = outcome(twin.twin, call())
        assert got[1] == "LookupError", site


@pytest.mark.parametrize("fn, call", EACH)
def test_pending_calls(fn, call):
    twin = twin_of(fn)
    want = outcome(fn, call())
    hits, _ = twin.hits(call())
    plain = [
        m
        for m, i in enumerate(hits)
        if twin.rows[i]["op"] == "Call" and (i, 1) in twin.exits and twin.rows[i]["extra"] == -1
    ]
    for m in plain:
        for resumed in (False, True):

            def leave_there(target, state):
                there = Shared(fn)
                exit_number = twin.exits.index((target, 1))
                twin.on_pending = lambda frame: twin.run_pending(target, state)

                def on_resume_slot(frame):
                    state.switch_handlers(frame, [])
                    state.write_locals(frame)
                    state.write_stack(frame, 0, twin.depth(twin.exits[exit_number]))

                def on_site(i, frame):
                    twin.on_site = lambda i, frame: NOTHING
                    there.restore()
                    return twin.leave(frame, i, exit_number, state)

                if resumed:
                    twin.on_site = lambda i, frame: NOTHING
                    twin.on_resume_slot = on_resume_slot
                    return twin.resume(exit_number)
                twin.on_site = on_site
                return outcome(twin.twin, call())

            got = twin.at_hit(call(), m, leave_there)
            assert same(got, want, not twin.rows[hits[m]]["handled"]), (hits[m], twin.rows[hits[m]])


def test_most_places_are_legal():
    """In functions without handlers every reachable instruction can be a site."""
    twin = twin_of(twin_corpus.loop_nested)
    reachable = [i for i, row in enumerate(twin.rows) if row["depth"] >= 0]
    assert len(reachable) - len(twin.sites) <= 3


def test_method_slots_are_static():
    twin = twin_of(twin_corpus.method_calls)
    seen = []

    def on_site(i, frame):
        row = twin.rows[i]
        seen.append([j for j in range(row["depth"]) if frame.stack(j) is NULL] == row["nulls"])
        return NOTHING

    twin.on_site = on_site
    twin.twin(twin_corpus.Point(3))
    assert len(seen) > 20 and all(seen)


@pytest.mark.parametrize("fn, call", EACH)
def test_sites_after_an_exit_are_legal_and_reached(fn, call):
    """Each run that passes an instruction and goes on passes one of the sites after it, unless the function ends first."""
    twin = twin_of(fn)
    hits, _ = twin.hits(call())
    for m, i in enumerate(hits[:-1]):
        after = _core.twin_sites_after(fn.__code__, i, 0)
        assert set(after) <= set(twin.sites)
        handled = any(twin.rows[h]["handled"] for h in hits[m + 1 :])
        if not handled and twin.rows[hits[m + 1]]["op"] not in ("ReturnValue", "ReturnConst", "Reraise"):
            assert set(after) & set(hits[m + 1 :]), (i, after, twin.rows[i])


def test_sites_after_a_caught_exception():
    fn = twin_corpus.try_except
    twin = twin_of(fn)
    divide = next(i for i, row in enumerate(twin.rows) if row["op"] == "BinaryOp")
    hits, _ = twin.hits((0,))
    assert set(_core.twin_sites_after(fn.__code__, divide, 0)) & set(hits[hits.index(divide) + 1 :])


def test_generators_have_no_twin():
    def gen():
        yield 1

    assert "generator" in _core.twin_layout(gen.__code__)["why_not_twin"]
    with pytest.raises(ValueError, match="generator"):
        _core.twin_build(gen.__code__, [], [], None, None, None)


def test_illegal_site_is_refused():
    with pytest.raises(ValueError, match="no segment can start at instruction 9999"):
        _core.twin_build(twin_corpus.straight.__code__, [(9999, None)], [], None, None, None)


def test_listing_names_things():
    twin = twin_of(twin_corpus.try_in_loop)
    text = _core.twin_list(twin.twin.__code__)
    assert "code try_in_loop" in text
    assert "FrameCall" in text and "ForIter" in text and "note" in text
    first = twin_corpus.try_in_loop.__code__.co_firstlineno
    assert "%d" % (first + 3) in text


def test_nothing_leaks():
    twin = twin_of(twin_corpus.with_and_for)
    if not hasattr(sys, "gettotalrefcount"):
        pytest.skip("needs a debug interpreter")

    def once():
        m = 10

        def leave_there(target, state):
            exit_number = twin.exits.index((target, 0))

            def on_site(i, frame):
                twin.on_site = lambda i, frame: NOTHING
                return twin.leave(frame, i, exit_number, state)

            twin.on_site = on_site
            return outcome(twin.twin, (3,))

        twin.at_hit((3,), m, leave_there)
        twin.on_site = twin.on_take = None

    def many(count):
        for _ in range(count):
            once()
        gc.collect()
        return sys.gettotalrefcount()

    many(5)
    before = many(1)
    many(20)
    assert sys.gettotalrefcount() - before < 10
