"""try in all its forms, and exceptions that leave a call."""

from __future__ import annotations

import torch

from .registry import Group

construct = Group("Exceptions")


class ShapeError(ValueError):
    def __init__(self, got, want):
        super().__init__(f"got {got}, want {want}")
        self.got, self.want = got, want


def require(value, size):
    if value.shape[0] != size:
        raise ShapeError(value.shape[0], size)
    return value


@construct("try, except, else, finally")
def try_except_else_finally(x):
    log = []
    try:
        y = require(x, 3).sin()
    except ShapeError:
        log.append("except")
    else:
        log.append("else")
        y = y + 1
    finally:
        log.append("finally")
    return y, log


@construct("custom exception caught by its base")
def custom_exception_caught_by_its_base(x):
    try:
        require(x * 2, 4)
    except ValueError as error:
        return x * error.want + error.got, str(error)


@construct("the first of several handlers that fits")
def the_first_of_several_handlers_that_fits(x):
    try:
        {}["missing"]
    except IndexError:
        return x
    except (KeyError, TypeError) as error:
        return x * 2, error.args
    except Exception:
        return x * 3


@construct("bare except")
def bare_except(x):
    try:
        [][1]
    except:  # noqa: E722
        return x.cos()


@construct("re-raise")
def re_raise(x):
    log = []
    try:
        try:
            y = x + 1
            raise KeyError("inner")
        except KeyError:
            log.append("seen")
            raise
    except LookupError as error:
        return y * 2, log, error.args


@construct("raise from")
def raise_from(x):
    try:
        try:
            require(x, 7)
        except ShapeError as error:
            raise RuntimeError("bad batch") from error
    except RuntimeError as error:
        return x - 1, str(error.__cause__), error.__suppress_context__


@construct("raise from None")
def raise_from_none(x):
    try:
        try:
            1 // 0
        except ZeroDivisionError:
            raise ValueError("hidden") from None
    except ValueError as error:
        return x + 1, error.__cause__ is None, type(error.__context__).__name__


@construct("exception while another is handled")
def exception_while_another_is_handled(x):
    try:
        try:
            int("no number")
        except ValueError:
            {}["missing"]
    except KeyError as error:
        return x.sin(), type(error.__context__).__name__


@construct("the name of the exception is gone after its handler")
def the_name_of_the_exception_is_gone_after_its_handler(x):
    error = "before"
    try:
        raise ValueError("gone")
    except ValueError as error:
        x = x + 1
    try:
        return error
    except UnboundLocalError:
        return x * 2


@construct("return inside try, finally still runs")
def return_inside_try_finally_still_runs(x):
    log = []

    def compute(value):
        try:
            return value.exp()
        finally:
            log.append("finally")

    return compute(x), log


@construct("return inside finally wins")
def return_inside_finally_wins(x):
    def compute(value):
        try:
            raise ValueError("swallowed")
        finally:
            return value * 5  # noqa: B012

    return compute(x)


@construct("break and continue through finally")
def break_and_continue_through_finally(x):
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
        finally:
            log.append(i)
    return x, log


@construct("try in a loop, retried")
def try_in_a_loop_retried(x):
    for attempt in range(3):
        try:
            if attempt < 2:
                raise RuntimeError(attempt)
            return x * attempt
        except RuntimeError as error:
            x = x + error.args[0]


@construct("exception from a callee three calls deep")
def exception_from_a_callee_three_calls_deep(x):
    def third(value):
        raise ShapeError(value.shape[0], 9)

    def second(value):
        return third(value + 1)

    def first(value):
        return second(value * 2)

    try:
        return first(x)
    except ShapeError as error:
        return x.sin(), error.got, error.want


@construct("exception object made and kept")
def exception_object_made_and_kept(x):
    errors = []
    for size in (2, 3):
        try:
            require(x, size)
        except ShapeError as error:
            errors.append(error)
    return x + len(errors), [str(error) for error in errors]


@construct("exception that leaves the call", raises=ShapeError)
def exception_that_leaves_the_call(x):
    y = x.sin()
    return require(y, 4)


@construct("raise from, leaving the call", raises=RuntimeError)
def raise_from_leaving_the_call(x):
    try:
        require(x + 1, 4)
    except ShapeError as error:
        raise RuntimeError("no batch") from error


@construct("finally runs before the exception leaves", raises=ShapeError)
def finally_runs_before_the_exception_leaves(x):
    try:
        require(x * 2, 5)
    finally:
        LOG.append("cleaned up")


LOG = []


@construct("tensor operator that raises, caught")
def tensor_operator_that_raises_caught(x):
    try:
        return x + torch.ones(4)
    except RuntimeError:
        return x.cos()


@construct("tensor operator that raises leaves the call", raises=RuntimeError)
def tensor_operator_that_raises_leaves_the_call(x):
    y = x.sin()
    return y.reshape(2, 2)


@construct("tensor index out of range", raises=IndexError)
def tensor_index_out_of_range(x):
    return x.sum() + x[5]


@construct("tensor method with a wrong argument", raises=TypeError)
def tensor_method_with_a_wrong_argument(x):
    return x.sin(2)


@construct("attribute error on a tensor, caught")
def attribute_error_on_a_tensor_caught(x):
    try:
        return x.no_such_attribute
    except AttributeError:
        return x + hasattr(x, "shape")


@construct("try around an in-place operator")
def try_around_an_in_place_operator(x):
    y = x.clone()
    try:
        y.add_(1)
        y.add_(torch.ones(5))
    except RuntimeError:
        y.mul_(10)
    return y


@construct("StopIteration caught by hand")
def stop_iteration_caught_by_hand(x):
    parts = iter([x, x + 1])
    out = []
    while True:
        try:
            out.append(next(parts) * 2)
        except StopIteration:
            break
    return out


@construct("sys.exc_info in a handler")
def sys_exc_info_in_a_handler(x):
    import sys

    try:
        raise ValueError("now")
    except ValueError:
        kind = sys.exc_info()[0]
    return x + 1, kind is ValueError


construct.source(
    "except* splits a group",
    """
    def f(x):
        seen = []
        try:
            y = x + 1
            raise ExceptionGroup("group", [ValueError(1), KeyError(2), ValueError(3)])
        except* ValueError as group:
            seen.append([error.args for error in group.exceptions])
        except* KeyError as group:
            seen.append(len(group.exceptions))
        return y * 2, seen
    """,
    since=(3, 11),
)
construct.source(
    "except* with a part that is not handled",
    """
    def f(x):
        try:
            try:
                raise ExceptionGroup("group", [ValueError(1), TypeError(2)])
            except* ValueError:
                x = x + 1
        except ExceptionGroup as rest:
            return x * 2, [type(error).__name__ for error in rest.exceptions]
    """,
    since=(3, 11),
)
construct.source(
    "except* around a plain exception",
    """
    def f(x):
        try:
            raise ValueError("plain")
        except* ValueError as group:
            count = len(group.exceptions)
        return x * count
    """,
    since=(3, 11),
)
construct.source(
    "exception notes",
    """
    def f(x):
        try:
            error = ValueError("text")
            error.add_note("of shape 3")
            raise error
        except ValueError as error:
            return x.sin(), error.__notes__
    """,
    since=(3, 11),
)
