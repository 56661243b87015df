"""A traceback out of compiled code shows the user's files, lines, functions, text and columns."""

import re
import sys
import traceback
import warnings

import pytest
import torch

import framejit
from framejit._shadow.scope import is_user_code


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def inner(x, n):
    y = x.sin()
    print("before the error")
    return y.cos() + [1, 2][n]


def middle(x, n):
    total = x + 1
    for _ in range(2):
        total = total + inner(
            x,
            n,
        )
    return total


def outer(x, n):
    try:
        y = middle(x, n) * 2
    finally:
        print("finally")
    return y


def user_entries(error):
    """(file, line, function, text) and, where Python has them, columns, of the entries in test code."""
    entries = []
    for frame, summary in zip(traceback.walk_tb(error.__traceback__), traceback.extract_tb(error.__traceback__)):
        code = frame[0].f_code
        if is_user_code(code.co_filename) and code.co_name in ("inner", "middle", "outer", "<lambda>", "f"):
            columns = (getattr(summary, "colno", None), getattr(summary, "end_colno", None))
            entries.append((summary.filename, summary.lineno, summary.name, summary.line, columns))
    return entries


def error_of(fn, *args):
    with pytest.raises(Exception) as caught:
        fn(*args)
    return caught.value


def check_same_entries(fn, *args):
    eager = user_entries(error_of(fn, *args))
    assert eager
    compiled = framejit.to_static(fn)
    for _ in range(3):
        assert user_entries(error_of(compiled, *args)) == eager


def test_entries_after_a_break_in_an_inlined_callee(capsys):
    check_same_entries(outer, x3(), 5)


def test_entries_without_a_break():
    check_same_entries(lambda x: (x + 1).view(7), x3())


def test_entries_of_an_error_in_a_tensor_operation():
    def f(x):
        y = x * 2

        z = y @ torch.ones(
            5
        )
        return z

    check_same_entries(f, x3())


def test_entries_of_an_error_on_a_line_with_several_calls():
    def f(x, table):
        return (x + 1).sum() + table["a"]["b"] + table["missing"]["b"]

    check_same_entries(f, x3(), {"a": {"b": 1}})


def test_rendered_text_is_the_users():
    compiled = framejit.to_static(outer)
    eager = "".join(traceback.format_exception(*exc_info(error_of(outer, x3(), 5))))
    for _ in range(2):
        text = "".join(traceback.format_exception(*exc_info(error_of(compiled, x3(), 5))))
        assert strip_foreign(text) == strip_foreign(eager)


def exc_info(error):
    return type(error), error, error.__traceback__


def strip_foreign(text):
    """The rendered traceback without this helper's own entry and without entries outside the tests."""
    kept, skip = [], False
    for line in text.splitlines():
        if re.match(r"  File ", line):
            skip = "test_tracebacks.py" not in line or ", in error_of" in line
        if not skip or not line.startswith("  "):
            kept.append(line)
    return kept


def test_frame_of_a_compiled_function_has_the_users_names():
    compiled = framejit.to_static(inner)
    error = error_of(compiled, x3(), 5)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "inner"]
    assert len(frames) == 1
    assert frames[0].f_code.co_filename == __file__
    assert set(frames[0].f_locals) == {"x", "n", "y"}
    assert frames[0].f_globals is globals()


def test_stack_seen_by_a_called_function_is_the_users():
    seen = []

    def look():
        seen.append([frame.f_lineno for frame in frames_of(sys._getframe()) if frame.f_code.co_name == "f"])

    look = framejit.not_to_static(look)

    def f(x):
        y = x.sin()
        look()
        y = y.cos()
        look()
        return y

    f(x3())
    f_lines = seen[:]
    compiled = framejit.to_static(f)
    for _ in range(2):
        seen.clear()
        compiled(x3())
        assert seen == f_lines


def frames_of(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_warning_points_at_the_users_line():
    def f(x):
        y = x.sin()
        warnings.warn("careful", stacklevel=1)
        return y.cos()

    def lines(run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run(x3())
        return [(w.filename, w.lineno, str(w.message)) for w in caught if "careful" in str(w.message)]

    eager = lines(f)
    assert len(eager) == 1
    compiled = framejit.to_static(f)
    assert [lines(compiled), lines(compiled)] == [eager, eager]


def test_debugger_trace_function_sees_the_users_lines():
    def f(x):
        y = x.sin()
        print("break")
        return y.cos()

    def traced(run):
        lines = []

        def trace(frame, event, argument):
            if frame.f_code.co_name == "f" and event == "line":
                lines.append(frame.f_lineno)
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            run(x3())
        finally:
            sys.settrace(previous)
        return lines

    eager = traced(f)
    compiled = framejit.to_static(f)
    expected = framejit.to_static(f)(x3())
    lines = traced(compiled)
    assert set(lines) <= set(eager)
    assert torch.equal(compiled(x3()), expected)
