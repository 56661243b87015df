"""with: context managers of the user, of contextlib, of torch."""

from __future__ import annotations

import contextlib

import torch

from .registry import Group

construct = Group("Context managers")


class Scope:
    """Notes that it was entered and left, and swallows one type of exception."""

    def __init__(self, log, name="scope", swallow=()):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def scaled(values, factor):
    values.append(factor)
    try:
        yield factor
    finally:
        values.pop()


@construct("user context manager")
def user_context_manager(x):
    log = []
    with Scope(log) as scope:
        y = x.sin() * len(scope.name)
    return y, log


@construct("several at once")
def several_at_once(x):
    log = []
    with Scope(log, "a"), Scope(log, "b") as b:
        y = x + len(b.name)
    return y, log


construct.source(
    "several in parentheses",
    """
    import contextlib

    def f(x):
        with (
            torch.no_grad(),
            contextlib.nullcontext(2.0) as factor,
        ):
            return x * factor
    """,
    since=(3, 10),
)


@construct("exception suppressed by __exit__")
def exception_suppressed_by_exit(x):
    log = []
    with Scope(log, swallow=(KeyError,)):
        x = x + 1
        raise KeyError("swallowed")
    return x * 2, log


@construct("exception passed through __exit__", raises=ValueError)
def exception_passed_through_exit(x):
    with Scope(LOG, swallow=(KeyError,)):
        y = x + 1
        raise ValueError("not swallowed")
    return y


LOG = []


@construct("__exit__ that raises another exception")
def exit_that_raises_another_exception(x):
    class Replacing:
        def __enter__(self):
            return None

        def __exit__(self, kind, error, traceback):
            raise RuntimeError("from exit") from error

    try:
        with Replacing():
            raise ValueError("first")
    except RuntimeError as error:
        return x + 1, type(error.__cause__).__name__


@construct("return from inside with")
def return_from_inside_with(x):
    log = []

    def compute(value):
        with Scope(log):
            return value.exp()

    return compute(x), log


@construct("break and continue inside with")
def break_and_continue_inside_with(x):
    log = []
    for i in range(4):
        with Scope(log, str(i)):
            if i == 1:
                continue
            if i == 2:
                break
            x = x * 2
    return x, log


@construct("contextlib.contextmanager")
def contextlib_contextmanager(x):
    stack = []
    with scaled(stack, 3.0) as factor:
        y = x * factor + len(stack)
    return y, stack


@construct("contextmanager that handles an exception")
def contextmanager_that_handles_an_exception(x):
    @contextlib.contextmanager
    def ignoring(kind):
        try:
            yield
        except kind:
            log.append("ignored")

    log = []
    with ignoring(KeyError):
        x = x + 1
        {}["missing"]
    return x * 2, log


@construct("contextmanager as a decorator")
def contextmanager_as_a_decorator(x):
    values = []

    @contextlib.contextmanager
    def noted():
        values.append("in")
        yield
        values.append("out")

    @noted()
    def compute(value):
        return value.sin()

    return compute(x), values


@construct("ExitStack")
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        for name in "ab":
            stack.enter_context(Scope(log, name))
        stack.callback(log.append, "callback")
        y = x * len(log)
    return y, log


@construct("nullcontext chosen by a flag")
def nullcontext_chosen_by_a_flag(x, train=False):
    with torch.enable_grad() if train else contextlib.nullcontext():
        return x * 2


@construct("contextlib.suppress")
def contextlib_suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        [][0]
    return x * 2


@construct("contextlib.closing")
def contextlib_closing(x):
    class Source:
        closed = 0

        def read(self):
            return x.sin()

        def close(self):
            self.closed += 1

    with contextlib.closing(Source()) as source:
        y = source.read()
    return y, source.closed


@construct("redirect_stdout")
def redirect_stdout(x):
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("inside")
        y = x + 1
    return y, text.getvalue()


@construct("torch.no_grad", args=lambda: (torch.tensor([0.5, -1.5, 2.0], requires_grad=True),))
def torch_no_grad(x):
    with torch.no_grad():
        y = x * 2
    z = x * 3
    return y, z, y.requires_grad, z.requires_grad


@construct("torch.no_grad as a decorator")
def torch_no_grad_as_a_decorator(x):
    @torch.no_grad()
    def evaluate(value):
        return value * 2, torch.is_grad_enabled()

    return evaluate(x), torch.is_grad_enabled()


@construct("torch.set_grad_enabled, nested")
def torch_set_grad_enabled_nested(x):
    with torch.set_grad_enabled(False):
        with torch.enable_grad():
            inner = torch.is_grad_enabled()
        return x + 1, inner, torch.is_grad_enabled()


@construct("torch.autocast")
def torch_autocast(x):
    matrix = x.reshape(1, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = matrix @ matrix.t()
    return product, product.dtype


@construct("with in an inlined generator")
def with_in_an_inlined_generator(x):
    log = []

    def steps():
        with Scope(log):
            yield x + 1
            yield x + 2

    return list(steps()), log
