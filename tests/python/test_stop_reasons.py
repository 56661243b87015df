"""Each row of tracer/stop_reasons.def: something that provokes it, what the reports say, what full_graph says."""

import contextvars
import os
import re
import sys
import types

import pytest
import torch
import torch.utils.checkpoint

import framejit
from framejit import _C
from support.skip_list import is_shadowed

VARIABLE = contextvars.ContextVar("variable")
BUFFER = bytes(12)


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


class Passing(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class State:
    calls = 0


@framejit.not_to_static
def marked(x):
    return x + 1


def suspended(x):
    try:
        yield x + 1
    finally:
        State()


def generator_left_open(x, kept):
    steps = suspended(x)
    kept.append(steps)
    return next(steps)


def over(x, items):
    for item in items:
        x = x + item
    return x


def class_statement(x):
    class Made:
        number = 1

    return x + Made.number


def token_at_a_break(x):
    token = VARIABLE.set(1)
    framejit.graph_break()
    VARIABLE.reset(token)
    return x + 1


def deep(x, n=200):
    return x + 1 if n == 0 else deep(x, n - 1)


def long(x):
    for _ in range(1_000_000):
        pass
    return x + 1


def changes_a_class(x):
    State.calls = 3
    return x + 1


def counts_over_breaks(x):
    for n in range(20):
        framejit.graph_break()
        x = x + n
    return x


def imports(x):
    import colorsys

    return x + len(colorsys.__all__)


def catches(x):
    try:
        raise KeyError("on purpose")
    except KeyError:
        return x + 1


@framejit.not_to_static
def keep_the_callers_frame():
    KEPT[:] = [sys._getframe(1)]


def is_kept(x):
    keep_the_callers_frame()
    print(end="")
    return x + 1


def raises(x):
    raise ValueError("on purpose")


KEPT = []


def sandboxed(x):
    return x + len(x)


sandboxed = types.FunctionType(sandboxed.__code__, {"__builtins__": {"len": lambda value: 100}})

PROVOKE = {
    "DataDependentBranch": lambda x: x if x.sum() > 0 else x + 1,
    "DataDependentValue": lambda x: x * x.sum().tolist(),
    "DataDependentShape": lambda x: torch.nonzero(x),
    "GradientNeedsData": (lambda x, w: x * w.max(), lambda: torch.ones(3, requires_grad=True)),
    "GradientInside": (lambda x, w: [(x * w).sum().backward(create_graph=True), x + 1][1], lambda: torch.ones(3, requires_grad=True)),
    "UnknownCall": lambda x: x + os.getpid(),
    "Print": lambda x: (print("said"), x + 1)[1],
    "ControlFlow": (lambda x, w: torch.cond(x.sum() > 0, torch.sin, torch.cos, (w,)) * x, lambda: torch.ones(3, requires_grad=True)),
    "UserBreak": lambda x: (framejit.graph_break(), x + 1)[1],
    "NotToStatic": lambda x: marked(x),
    "GeneratorCall": (generator_left_open, list),
    "OutsideIterator": (over, lambda: iter([1, 2])),
    "UncaughtException": raises,
    "UnsupportedInstruction": class_statement,
    "UnsupportedAttribute": lambda x: x if (x * 2)._version == 0 else x + 1,
    "UnsupportedValue": (lambda x, view: x + view[0], lambda: memoryview(b"ab")),
    "ChangingNumber": counts_over_breaks,
    "UnsupportedTensor": (lambda x, sparse: sparse.to_dense() + x, lambda: torch.ones(3).to_sparse()),
    "Recomputation": lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False, determinism_check="none"),
    "ActiveMode": lambda x: x + 1,
    "UnknownTensor": lambda x: torch.frombuffer(BUFFER, dtype=torch.float32) + x,
    "ContainerTooLarge": (over, lambda: [0] * 5000),
    "TensorData": lambda x: x if x.data_ptr() else x + 1,
    "HandledException": catches,
    "HeldFrame": is_kept,
    "OwnFrame": lambda x: x + len(sys._getframe().f_code.co_name),
    "ForeignBuiltins": lambda x: sandboxed(x),
    "ObjectCounts": lambda x: x + sys.getsizeof([x]),
    "CannotRebuild": token_at_a_break,
    "DeepRecursion": lambda x: deep(x),
    "TooLong": long,
    "GlobalMutation": changes_a_class,
    "Import": imports,
    "OperatorFailed": lambda x: torch.histogram(x, 4)[0],
}
pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable")


def provoke(name):
    """The function, and what makes its arguments."""
    if name == "UnknownTensor" and hasattr(sys, "gettotalrefcount"):
        pytest.skip("torch.frombuffer of read-only bytes returns with an exception set, which ends a debug interpreter")
    if name == "Import" and is_shadowed():
        pytest.skip("the eager run of a shadowed call imports the module")
    case = PROVOKE[name]
    fn, more = case if isinstance(case, tuple) else (case, None)
    sys.modules.pop("colorsys", None)
    return fn, lambda: (x3(), more()) if more else (x3(),)


def call(name, function, *args):
    """`function(*args)`, in a handler or under a mode where the reason asks for one."""
    if name == "ActiveMode":
        with Passing():
            return function(*args)
    if name != "HandledException":
        return function(*args)
    try:
        raise LookupError
    except LookupError:
        return function(*args)


def test_every_row_is_here():
    assert set(PROVOKE) == set(_C.stop_reasons())


@pytest.mark.parametrize("name", sorted(_C.stop_reasons()))
def test_every_row_has_a_text_and_a_hint(name):
    text, hint = _C.stop_reasons()[name]
    assert len(text.split()) > 1 and len(hint.split()) > 1 and text != hint


@pytest.mark.parametrize("name", sorted(set(PROVOKE) - {"UncaughtException"}))
def test_explain_and_eager(name, capsys):
    fn, arguments = provoke(name)
    expected = call(name, fn, *arguments())
    fn, arguments = provoke(name)
    report = call(name, framejit.explain, fn, *arguments())
    assert torch.equal(report.result, expected)
    assert name in report.stats["break_reasons"], report.stats
    (item, *_) = [item for item in report.breaks if item.reason == name]
    for part in (*_C.stop_reasons()[name], "test_stop_reasons.py:"):
        assert part in item.why() and part in str(report)


# Of a number that changes: test_changing_numbers.py, since the capture of one call does not show it. A frame that is held
# has a break before it is.
@pytest.mark.parametrize("name", sorted(set(PROVOKE) - {"UncaughtException", "ChangingNumber", "HeldFrame"}))
def test_full_graph_names_place_reason_and_hint(name):
    fn, arguments = provoke(name)
    with pytest.raises(framejit.GraphBreakError) as caught:
        call(name, framejit.to_static(fn, full_graph=True), *arguments())
    message = str(caught.value)
    assert re.search(r"test_stop_reasons\.py:\d+: ", message), message
    for part in _C.stop_reasons()[name]:
        assert part in message


def test_exception_of_the_program():
    report = framejit.stats()["break_reasons"].get("UncaughtException", 0)
    for options in ({}, {"full_graph": True}):
        with pytest.raises(ValueError, match="on purpose"):
            framejit.to_static(raises, **options)(x3())
    assert framejit.stats()["break_reasons"]["UncaughtException"] == report + 2
