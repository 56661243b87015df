"""The frame hook, on whatever Python runs this: who is handed to the handler, and that nothing is left behind."""
import gc
import importlib.util
import shutil
import sys
import threading
import time
import weakref

import pytest

from framejit_bytecode import _core


@pytest.fixture(autouse=True)
def no_hook_left():
    yield
    _core.hook_set_replacements(None)
    assert _core.hook_state() == {"installed": 0, "active": 0, "traced": _core.hook_state()["traced"]}


def replace(**mapping):
    _core.hook_set_replacements({fn.__code__: by for fn, by in mapping.values()})


def test_current_frame_is_the_caller():
    def f(a, b):
        c = a + b
        return _core.frame_state(0)

    code, lasti, slots, _ = f(1, 2)
    assert code is f.__code__
    assert slots[:3] == [1, 2, 3]
    assert 0 < lasti < len(code.co_code)


def test_locals_and_stack_of_the_caller_can_be_written():
    def f(a):
        _core.frame_set_local(0, "new")
        return a

    def g():
        return "below" + str(_core.frame_set_stack(0, "changed"))

    assert f("old") == "new"
    if sys.version_info >= (3, 8):
        assert g() == "changedNone"


def test_replaced_frame_returns_the_handlers_result():
    def f(x, y=2, *args, k=3, **kw):
        return "original"

    replace(f=(f, lambda *a: a))
    assert _core.hook_call(lambda: f(1)) == (1, 2, 3, (), {})
    assert _core.hook_call(lambda: f(1, 5, 6, 7, k=8, z=9)) == (1, 5, 8, (6, 7), {"z": 9})
    assert f(1) == "original"


def test_argument_that_is_a_cell():
    def f(a, b):
        def inner():
            return b

        return inner()

    replace(f=(f, lambda *a: a))
    assert _core.hook_call(lambda: f([1], [2])) == ([1], [2])


def test_arguments_are_released_once():
    class Thing:
        pass

    def f(a, b):
        return a

    replace(f=(f, lambda a, b: None))
    thing = Thing()
    ref = weakref.ref(thing)
    before = sys.getrefcount(thing)

    def many():
        for _ in range(100):
            f(thing, thing)

    _core.hook_call(many)
    assert sys.getrefcount(thing) == before
    del thing
    assert ref() is None


def test_frames_at_the_edge_of_a_data_stack_chunk():
    """Disposing of a frame that is the first in its chunk gives the chunk back."""

    def f(a):
        return "original"

    def descend(n):
        f(n)
        return descend(n - 1) if n else f(0)

    replace(f=(f, lambda a: a))
    for depth in range(150, 190):
        assert _core.hook_call(descend, depth) == 0


def test_exception_of_a_handler_reaches_the_caller():
    def f(x):
        return x

    def bad(x):
        raise KeyError(x)

    def caller():
        try:
            f(3)
        except KeyError as e:
            return e.args

    replace(f=(f, bad))
    assert _core.hook_call(caller) == (3,)
    with pytest.raises(KeyError):
        _core.hook_call(f, 4)


def test_hook_is_off_while_the_handler_runs():
    def f(x):
        return x

    def again(x):
        return ("replaced", _core.hook_state()["active"], f(x))

    replace(f=(f, again))
    assert _core.hook_call(f, 1) == ("replaced", 0, 1)


def test_replacement_may_turn_the_hook_on_again():
    def f(x):
        return g(x)

    def g(x):
        return "original"

    replace(f=(f, lambda x: _core.hook_call(lambda: g(x))), g=(g, lambda x: "inner"))
    assert _core.hook_call(f, 1) == "inner"


def test_pause_nests():
    def f():
        return "original"

    replace(f=(f, lambda: "replaced"))
    assert _core.hook_call(lambda: (f(), _core.hook_pause_call(lambda: f()), f())) == ("replaced", "original", "replaced")


def test_generators_and_coroutines_are_left_alone():
    def gen():
        yield 1
        yield 2

    async def coro():
        return 5

    async def agen():
        yield 1

    def drive():
        c = coro()
        try:
            c.send(None)
        except StopIteration as e:
            return list(gen()), e.value

    def never(*a):
        raise AssertionError("handed over")

    replace(gen=(gen, never), coro=(coro, never), agen=(agen, never))
    assert _core.hook_call(drive) == ([1, 2], 5)
    assert _core.hook_call(lambda: type(agen()).__name__) == "async_generator"


def test_generator_close_and_throw():
    log = []

    def gen():
        try:
            yield 1
        except ValueError:
            yield "caught"
        finally:
            log.append("closed")

    def drive():
        g = gen()
        next(g)
        got = g.throw(ValueError())
        g.close()
        return got

    replace(log=(drive.__code__ and drive, None))
    _core.hook_set_replacements({})
    assert _core.hook_call(drive) == "caught"
    assert log == ["closed"]


def recurse(n):
    return 0 if n == 0 else 1 + recurse(n - 1)


def forever(n):
    return forever(n + 1)


def test_deep_recursion_raises_recursion_error():
    def depth():
        deepest = [0]

        def go(n):
            deepest[0] = n
            return go(n + 1)

        try:
            go(0)
        except RecursionError:
            return deepest[0]

    _core.hook_set_replacements({})
    eager = depth()
    hooked = _core.hook_call(depth)
    assert abs(eager - hooked) <= 5


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 eager recursion uses the C stack too")
def test_recursion_deeper_than_the_c_stack():
    limit = sys.getrecursionlimit()
    _core.hook_set_replacements({})
    try:
        sys.setrecursionlimit(60000)
        assert _core.hook_call(recurse, 50000) == 50000
    finally:
        sys.setrecursionlimit(limit)


def test_hook_works_again_after_deep_recursion():
    def f():
        return "original"

    def go():
        recurse(500)
        return f()

    replace(f=(f, lambda: "replaced"))
    assert _core.hook_call(go) == "replaced"


def test_other_threads_are_left_alone():
    def f():
        return "original"

    replace(f=(f, lambda: "replaced"))
    seen = []

    def other():
        seen.append(f())

    def main():
        t = threading.Thread(target=other)
        t.start()
        t.join()
        return f()

    assert _core.hook_call(main) == "replaced"
    assert seen == ["original"]


def test_many_threads_inside_at_once():
    def f(x):
        return x

    replace(f=(f, lambda x: -x))
    bad = []

    def work(sign):
        def inner():
            for i in range(2000):
                if f(i) != sign * i:
                    bad.append(i)

        if sign < 0:
            for _ in range(5):
                _core.hook_call(inner)
        else:
            inner()

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(s,)) for s in (-1, 1, -1, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(old)
    assert not bad


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile])
def test_tracing_and_profiling_see_the_original(setter):
    def f():
        return "original"

    replace(f=(f, lambda: "replaced"))
    events = []

    def tracer(frame, event, arg):
        if frame.f_code is f.__code__:
            events.append(event)
        return tracer

    def run():
        setter(tracer)
        try:
            return f(), _core.hook_state()["traced"]
        finally:
            setter(None)

    previous = sys.gettrace(), sys.getprofile()
    assert _core.hook_call(run) == ("original", 1)
    assert "call" in events and "return" in events
    sys.settrace(previous[0])
    sys.setprofile(previous[1])
    assert _core.hook_call(f) == "replaced"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
@pytest.mark.parametrize("local", [False, True])
def test_monitoring_sees_the_original(local):
    def f():
        return "original"

    replace(f=(f, lambda: "replaced"))
    mon = sys.monitoring
    seen = []
    mon.use_tool_id(3, "test")
    try:
        mon.register_callback(3, mon.events.PY_START, lambda code, offset: seen.append(code))
        if local:
            mon.set_local_events(3, f.__code__, mon.events.PY_START)
        else:
            mon.set_events(3, mon.events.PY_START)
        assert _core.hook_call(lambda: f()) == "original"
        assert f.__code__ in seen
        mon.set_events(3, 0)
        mon.set_local_events(3, f.__code__, 0)
    finally:
        mon.free_tool_id(3)
    assert _core.hook_call(lambda: f()) == "replaced"


@pytest.fixture(scope="module")
def other_core(tmp_path_factory):
    """A second, independent copy of the extension: someone else's frame evaluator."""
    path = tmp_path_factory.mktemp("other") / "_core.so"
    shutil.copy(_core.__file__, str(path))
    spec = importlib.util.spec_from_file_location("_core", str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_other_evaluators_are_chained_to(other_core):
    def ours(x):
        return theirs(x)

    def theirs(x):
        return "original"

    def left_alone():
        return ours(1), theirs(1)

    _core.hook_set_replacements({ours.__code__: lambda x: "ours"})
    other_core.hook_set_replacements({theirs.__code__: lambda x: "theirs"})
    try:
        for first, second in ((_core, other_core), (other_core, _core)):
            assert first.hook_call(lambda: second.hook_call(left_alone)) == ("ours", "theirs")
            assert left_alone() == ("original", "original")
    finally:
        other_core.hook_set_replacements(None)


def test_evaluator_installed_over_ours_and_left_late(other_core):
    def f():
        return "original"

    _core.hook_set_replacements({f.__code__: lambda: "ours"})
    other_core.hook_set_replacements({})
    inside, leave = threading.Event(), threading.Event()

    def stay():
        inside.set()
        leave.wait(10)

    def start_other():
        thread = threading.Thread(target=other_core.hook_call, args=(stay,))
        thread.start()
        inside.wait(10)
        return thread

    try:
        thread = _core.hook_call(start_other)  # the other evaluator now lies over ours, which has left
        assert f() == "original"
        assert _core.hook_call(f) == "ours"
        leave.set()
        thread.join()
        assert f() == "original"
        assert _core.hook_call(f) == "ours"
    finally:
        leave.set()
        other_core.hook_set_replacements(None)


def test_code_state_lives_as_long_as_the_code():
    class State:
        pass

    namespace = {}
    exec("def f(): pass", namespace)
    code = namespace["f"].__code__
    assert _core.code_state_get(code) is None
    first, second = State(), State()
    refs = weakref.ref(first), weakref.ref(second)
    _core.code_state_set(code, first)
    assert _core.code_state_get(code) is first
    del first
    _core.code_state_set(code, second)
    assert refs[0]() is None
    assert _core.code_state_get(code) is second
    del second, code
    namespace.clear()
    gc.collect()
    assert refs[1]() is None


def test_calls_are_as_fast_after_as_before():
    def small(x):
        return x

    def calls():
        for _ in range(3000):
            small(1)

    def arithmetic():
        x = 0
        for _ in range(3000):
            x += 1

    def seconds(f):
        start = time.thread_time()
        f()
        return time.thread_time() - start

    def cost():
        """Of a call, in terms of an addition: a slow machine slows both."""
        return min(seconds(calls) for _ in range(10)) / min(seconds(arithmetic) for _ in range(10))

    _core.hook_set_replacements({})
    cost()
    before = cost()
    _core.hook_call(calls)
    # Another process on the same core may slow rounds for a while; a hook that stays would slow all of them.
    end = time.monotonic() + 20
    while (after := cost()) >= before * 1.3 and time.monotonic() < end:
        time.sleep(0.01)
    assert after < before * 1.3


def test_no_reference_leaks_from_handled_calls():
    def f(a):
        return a

    replace(f=(f, lambda a: a))

    def many():
        for _ in range(1000):
            f(None)

    _core.hook_call(many)
    gc.collect()
    if not hasattr(sys, "gettotalrefcount"):
        before = sys.getrefcount(f.__code__), sys.getrefcount(f)
        _core.hook_call(many)
        assert (sys.getrefcount(f.__code__), sys.getrefcount(f)) == before
        return
    before = sys.gettotalrefcount()
    _core.hook_call(many)
    gc.collect()
    assert sys.gettotalrefcount() - before < 50
