"""with statements: torch's switches, user classes, contextlib, exits by return, break and exception."""

import contextlib

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


class Logged:
    def __init__(self, name, suppress=()):
        self.name, self.suppress = name, suppress

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self.name

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind))
        return kind is not None and issubclass(kind, self.suppress)


def test_no_grad():
    def f(x):
        with torch.no_grad():
            a, inside = x * 2, torch.is_grad_enabled()
        return a, x * 3, inside, torch.is_grad_enabled()

    check(f, x3().requires_grad_())


def test_enable_grad_inside_no_grad():
    def f(x):
        with torch.no_grad():
            with torch.enable_grad():
                a = x * 2
            b = x * 2
        return a, b

    check(f, x3().requires_grad_())


def test_set_grad_enabled():
    def f(x, flag):
        with torch.set_grad_enabled(flag):
            a = x * 2
        torch.set_grad_enabled(False)
        b = x * 2
        torch.set_grad_enabled(True)
        return a, b

    check(f, x3().requires_grad_(), True, miss=None)
    check(f, x3().requires_grad_(), False, miss=None)


def test_grad_mode_left_changed():
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y, x * 3

    def check_once(fn, x):
        with torch.enable_grad():
            return fn(x)

    check(lambda x: check_once(f, x), x3().requires_grad_(), miss=None)


def test_no_grad_as_a_decorator():
    @torch.no_grad()
    def callee(x):
        return x * 2

    @torch.enable_grad()
    def other(x):
        return x * 2

    check(lambda x: (callee(x), x * 3, other(x)), x3().requires_grad_())


def test_entry_function_decorated_with_no_grad():
    @torch.no_grad()
    def f(x):
        return x * 2

    check(f, x3().requires_grad_())


def test_inference_mode():
    def f(x):
        with torch.inference_mode():
            return x * 2 + 1

    def after(y):
        return y.is_inference()

    check(f, after=after, breaks=None)


def test_autocast():
    linear = torch.nn.Linear(3, 3)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = linear(x)
            with torch.autocast("cpu", enabled=False):
                z = linear(x)
        return y, z, linear(x), torch.is_autocast_enabled("cpu")

    check(f, torch.ones(2, 3))


def test_autocast_as_a_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def callee(x):
        return x @ x

    check(lambda x: (callee(x), x @ x), torch.eye(3))


def test_user_context_manager():
    def f(x):
        with Logged("a") as name:
            y = x + len(name)
        return y * 2

    check(f)


def test_several_managers_and_nesting():
    def f(x):
        with Logged("a") as a, Logged("b"):
            with Logged("c"):
                y = x + len(a)
        return y

    check(f)


def test_return_break_and_continue_leave_the_block():
    def f(x):
        for i in range(4):
            with Logged(str(i)):
                if i == 1:
                    continue
                if i == 2:
                    break
                x = x + i
        with Logged("return"):
            return x * 2

    check(f)


def test_exception_is_suppressed():
    def f(x):
        with Logged("a", suppress=(ValueError,)):
            x = x + 1
            raise ValueError("gone")
        return x * 2

    check(f)


def test_exception_is_not_suppressed():
    def f(x):
        with Logged("a", suppress=(KeyError,)):
            x = x + 1
            LOG.append(x)
            raise ValueError("through")

    check(f, raises=ValueError, graphs=None, breaks=None)


def test_exception_in_enter_and_exit():
    class FailingEnter(Logged):
        def __enter__(self):
            raise ValueError("enter")

    class FailingExit(Logged):
        def __exit__(self, *details):
            raise KeyError("exit")

    def enter(x):
        with Logged("outer"), FailingEnter("inner"):
            x = x + 1
        return x

    def leave(x):
        with FailingExit("inner"):
            LOG.append(x + 1)
            raise ValueError("body")

    check(enter, raises=ValueError, graphs=None, breaks=None)
    check(leave, raises=KeyError, graphs=None, breaks=None)


def test_contextlib_helpers():
    class Closable:
        def close(self):
            LOG.append("closed")

    def f(x):
        with contextlib.nullcontext(3) as three:
            y = x * three
        with contextlib.suppress(ValueError):
            y = y + 1
            raise ValueError
        with contextlib.closing(Closable()):
            y = y * 2
        return y

    check(f, breaks=None)


def test_exit_stack():
    def f(x):
        with contextlib.ExitStack() as stack:
            name = stack.enter_context(Logged("a"))
            stack.callback(LOG.append, "callback")
            y = x + len(name)
        return y

    check(f, breaks=None)


def test_generator_context_manager_with_exception():
    @contextlib.contextmanager
    def guarded():
        try:
            yield 2
        except ValueError:
            LOG.append("caught")
        finally:
            LOG.append("finally")

    def f(x):
        with guarded() as two:
            x = x * two
            raise ValueError
        return x + 1

    check(f, breaks=None)


def test_object_without_enter():
    def f(x):
        with x + 1:
            pass

    def kind():
        try:
            f(x3())
        except Exception as error:
            return type(error)

    check(f, raises=kind(), graphs=None, breaks=None)


def test_redirected_output():
    import io

    def f(x):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inside")
        return x + 1, text.getvalue()

    check(f, breaks=None)


def test_lock():
    import threading

    lock = threading.Lock()

    def f(x):
        with lock:
            y = x + 1
        return y, lock.locked()

    check(f, breaks=None)


def test_region_of_a_profiler():
    def f(x):
        with torch.autograd.profiler.record_function("part"):
            y = x + 1
        return y * 2

    check(f)


def test_region_of_a_profiler_with_a_break_in_it():
    def f(x):
        with torch.autograd.profiler.record_function("part") as region:
            y = x + 1
            framejit.graph_break()
            z = y * 2
        return z, region.name, region.record is None

    check(f, graphs=counts.at_least(2), breaks=None)


def test_region_of_a_profiler_that_an_exception_leaves():
    def f(x):
        y = x
        try:
            with torch.autograd.profiler.record_function("part"):
                y = x + 1
                raise KeyError("part")
        except KeyError as error:
            return y * 2, str(error)

    check(f)


@pytest.mark.runs_once("the profiler hears of both runs")
def test_region_that_a_profiler_hears_of():
    def f(x):
        with torch.autograd.profiler.record_function("part of mine"):
            y = x + 1
        return y * 2

    compiled = framejit.to_static(f)
    for _ in range(2):
        compiled(x3())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert torch.equal(compiled(x3()), f(x3()))
    assert [event.name for event in profile.events()].count("part of mine") == 2
    with counts.counting() as counted:
        compiled(x3())
    assert counted.hits == 1 and not counted.captures


def test_region_that_the_caller_is_in():
    def f(x, region):
        region.__exit__(None, None, None)
        return x + 1

    compiled = framejit.to_static(f)
    for _ in range(2):
        region = torch.autograd.profiler.record_function("part")
        region.__enter__()
        assert torch.equal(compiled(x3(), region), x3() + 1)


def test_default_dtype_and_device_contexts():
    def f(x):
        with torch.device("cpu"):
            y = x + torch.ones(3)
        previous = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            z = torch.zeros(3)
        finally:
            torch.set_default_dtype(previous)
        return y, z

    check(f, breaks=None)


class WithOwnMethods(Logged):
    """What lies in an object is not asked."""

    def __init__(self, name):
        super().__init__(name)
        self.__enter__ = lambda: "of the object"
        self.__exit__ = lambda *details: True


class AnswersAll:
    def __getattr__(self, name):
        return lambda *details: True


class OfClass(type):
    def __enter__(cls):
        LOG.append("enter " + cls.__name__)
        return cls.number

    def __exit__(cls, *details):
        LOG.append("exit " + cls.__name__)


class Entered(metaclass=OfClass):
    number = 3


OWN_METHODS = WithOwnMethods("own")
NO_METHODS = type("NoMethods", (), {})()
NO_METHODS.__enter__ = lambda: 1
NO_METHODS.__exit__ = lambda *details: None


@pytest.mark.parametrize("manager", [OWN_METHODS, Entered], ids=["own methods", "metaclass"])
def test_methods_are_those_of_the_class(manager):
    def f(x):
        with manager as value:
            x = x * 2
        return x, value

    check(f)


@pytest.mark.parametrize("manager", [NO_METHODS, AnswersAll(), 5, None, []], ids=lambda m: type(m).__name__)
def test_what_is_no_context_manager_is_an_error_with_the_words_of_the_version(manager):
    def f(x):
        y = x + 1
        try:
            with manager:
                y = y * 2
        except (AttributeError, TypeError) as error:
            return y, type(error), str(error)
        return y

    check(f, breaks=1, graphs=None, warm=False)
