"""try, except, raise, finally inside captured code, and exceptions that leave it."""

import gc
import traceback

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []
TABLE = {"a": 1}


class Custom(Exception):
    def __init__(self, code, **details):
        super().__init__(f"code {code}")
        self.code, self.details = code, details


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def check_raises(kind, fn, *args, **options):
    options.setdefault("graphs", None)
    return check(fn, *args, raises=kind, breaks=None, **options)


def fails(x, kind=ValueError):
    LOG.append("called")
    raise kind("failed", 3)


def test_try_without_exception():
    def f(x):
        try:
            y = x + 1
        except ValueError:
            y = x * 0
        else:
            y = y * 2
        finally:
            y = y - 1
        return y

    check(f)


def test_exception_raised_and_caught_inside():
    def f(x):
        try:
            y = x + 1
            raise ValueError("inside", 2)
        except ValueError as error:
            return y * 2, error.args, str(error), type(error).__name__

    check(f)


def test_exception_of_a_callee_is_caught():
    def f(x):
        y = x + 1
        try:
            fails(y)
        except (KeyError, ValueError) as error:
            y = y * error.args[1]
        return y

    check(f)


def test_exception_of_a_builtin_is_caught():
    def f(x):
        out = [x + 1]
        for action in (lambda: TABLE["z"], lambda: [].pop(), lambda: int("q"), lambda: 1 // 0, lambda: None.missing, lambda: "a" + 1, lambda: next(iter(()))):
            try:
                action()
            except (KeyError, IndexError, ValueError, ZeroDivisionError, AttributeError, TypeError, StopIteration) as error:
                out.append((type(error), str(error)))
        return out

    check(f)


def test_error_of_a_tensor_operator_is_caught():
    def f(x):
        try:
            return x @ torch.ones(4)
        except RuntimeError as error:
            return x + 1, str(error)

    check(f, breaks=None)


def test_custom_exception_with_attributes():
    def f(x):
        try:
            raise Custom(7, name="n", value=x + 1)
        except Custom as error:
            return error.details["value"] * error.code, error

    check(f, breaks=1)  # the exception leaves with its traceback


def test_exception_object_returned_and_stored():
    def f(x):
        try:
            raise ValueError(x + 1)
        except ValueError as error:
            LOG.append(error)
            kept = error
        return kept.args[0] * 2

    check(f, graphs=2, breaks=1)


def test_handlers_in_order_and_nested():
    def f(x):
        try:
            try:
                fails(x, KeyError)
            except ValueError:
                y = x * 0
            finally:
                LOG.append("inner finally")
        except LookupError as error:
            y = x + len(error.args)
        except Exception:
            y = x * 0
        return y

    check(f)


def test_bare_except_and_reraise_to_an_outer_handler():
    def f(x):
        try:
            try:
                fails(x)
            except:  # noqa: E722
                LOG.append("seen")
                raise
        except ValueError:
            return x + 1

    check(f)


def test_finally_with_return_break_and_continue():
    def f(x):
        for i in range(4):
            try:
                if i == 1:
                    continue
                if i == 3:
                    break
                x = x + i
            finally:
                LOG.append(i)

        def inner(v):
            try:
                return v + 1
            finally:
                LOG.append("returning")

        return inner(x)

    check(f)


def test_return_value_is_fixed_before_finally():
    def f(x):
        n = 1
        try:
            return x * n
        finally:
            n = 2
            LOG.append(n)

    check(f)


def test_exception_in_a_handler_keeps_its_context():
    def f(x):
        try:
            fails(x)
        except ValueError:
            try:
                fails(x, KeyError)
            except KeyError as second:
                return x + 1, type(second.__context__), second.__cause__

    check(f)


def test_raise_from():
    def f(x):
        try:
            try:
                fails(x)
            except ValueError as error:
                raise KeyError("outer") from error
        except KeyError as error:
            return x + 1, error.__cause__.args, error.__suppress_context__

    check(f)


def test_loop_with_try_inside():
    def f(x):
        out = []
        for key in ("a", "b", "a"):
            try:
                out.append(x * TABLE[key])
            except KeyError as error:
                out.append(error.args[0])
        return out

    check(f)


def test_generator_exit_by_stop_iteration():
    def f(x):
        numbers = iter([1, 2])
        total = x
        while True:
            try:
                total = total + next(numbers)
            except StopIteration:
                break
        return total

    check(f)


def test_raise_of_a_class_and_of_an_instance():
    check_raises(ValueError, lambda x: (x + 1, fails(x))[0])

    def bare(x):
        y = x + 1
        LOG.append(y)
        raise KeyError

    def instance(x):
        LOG.append(x + 1)
        raise Custom(3, x=x)

    check_raises(KeyError, bare)
    check_raises(Custom, instance)


def test_raise_of_something_else():
    def f(x):
        y = x + 1
        LOG.append(y)
        raise "text"

    check_raises(TypeError, f)


class Impostor(Exception):
    def __new__(cls):
        LOG.append("made")
        return list(range(20))


class Shown(type):
    def __repr__(cls):
        LOG.append("shown")
        return "Shown"


class ShownImpostor(Exception, metaclass=Shown):
    def __new__(cls):
        LOG.append("made")
        return list(range(20))


def raise_shown_impostor():
    raise ShownImpostor


def raise_impostor():
    raise Impostor


def raise_from_number():
    raise KeyError(1) from 3


def raise_from_impostor():
    raise KeyError(1) from Impostor


@pytest.mark.parametrize("run", [raise_impostor, raise_shown_impostor, raise_from_number, raise_from_impostor])
def test_raise_of_what_is_no_exception(run):
    def fn(x):
        try:
            run()
        except (TypeError, KeyError) as error:
            caught = type(error), str(error)
        return x + 1, caught

    LOG.clear()
    assert_same_as_eager(fn, torch.ones(2), breaks=None, graphs=None, cold_runs=3, after=lambda result: list(LOG))


def test_raise_without_an_active_exception():
    def f(x):
        y = x + 1
        LOG.append(y)
        raise  # noqa: PLE0704

    check_raises(RuntimeError, f)


def test_mutations_before_an_exception_stay():
    class Holder:
        n = 0

    holder, items = Holder(), []

    def f(x):
        holder.n += 1
        items.append(x + 1)
        LOG.append("seen")
        x.add_(1)
        items[0].mul_(2)
        raise ValueError("after mutations")

    check_raises(ValueError, f)


def test_exception_from_two_callees_deep():
    def inner(x):
        y = x + 1
        LOG.append(y)
        return fails(y)

    def outer(x):
        return inner(x * 2) + 1

    check_raises(ValueError, lambda x: outer(x) - 1)


def test_exception_passes_through_finally_and_with():
    class Logged:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            LOG.append(details[0])

    def f(x):
        try:
            with Logged():
                LOG.append(x + 1)
                fails(x)
        finally:
            LOG.append("finally")

    check_raises(ValueError, f)


def test_assert_on_known_values():
    from support.source import define_function

    source = """
    def f(x):
        assert x.dim() == {n}, f"dimension is {{x.dim()}}"
        assert x is not None
        return x + 1
    """
    check(define_function(source.format(n=1)))
    check_raises(AssertionError, define_function(source.format(n=2)))


@pytest.mark.parametrize(
    "action",
    [
        lambda x: x @ torch.ones(5),
        lambda x: x + torch.ones(2),
        lambda x: x.view(7),
        lambda x: torch.cat([x, torch.ones(2, 2)]),
        lambda x: x.sum(dim=3),
        lambda x: x[5],
        lambda x: x.missing,
        lambda x: torch.add(x, "a"),
        lambda x: torch.add(x),
        lambda x: x.reshape("a"),
        lambda x: x + None,
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 2)),
        lambda x: torch.stack([]),
        lambda x: x.to("nowhere"),
        lambda x: x.long() << 1.5 if False else x.softmax(9),
    ],
)
def test_error_of_a_tensor_operation(action):
    def f(x):
        LOG.append("before")
        y = action(x * 1)
        LOG.append("never")
        return y

    try:
        f(x3())
    except Exception as error:
        kind = type(error)
    LOG.clear()
    check_raises(kind, f)


def test_error_in_an_inplace_operation_on_a_leaf():
    check_raises(RuntimeError, lambda x: x.add_(1), x3().requires_grad_(), miss=None)


def test_traceback_format_inside():
    def f(x):
        try:
            fails(x + 1)
        except ValueError:
            return x + 1, traceback.format_exc().splitlines()[-1]

    check(f, breaks=None, graphs=None)


def test_exception_notes_and_traceback_attribute():
    def f(x):
        try:
            fails(x)
        except ValueError as error:
            return x + 1, error.__traceback__ is not None, error.with_traceback(None).__traceback__

    check(f, breaks=None, graphs=None)


def test_system_exit_and_keyboard_interrupt_pass_through():
    import framejit

    for kind in (SystemExit, KeyboardInterrupt):

        def f(x):
            LOG.append(x + 1)
            raise kind(3)

        compiled = framejit.to_static(f)
        for _ in range(2):
            with pytest.raises(kind) as caught:
                compiled(x3())
            assert caught.value.args == (3,)
    LOG.clear()


def test_context_of_a_caller_stays():
    import framejit

    compiled = framejit.to_static(fails)
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            try:
                raise KeyError("outer")
            except KeyError:
                compiled(x3())
        assert isinstance(caught.value.__context__, KeyError)
    LOG.clear()


def test_traceback_handed_to_exit():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            self.seen = kind, traceback is None
            return True

    def f(x):
        manager, calm = Manager(), Manager()
        with manager:
            {}["missing"]
        with calm:
            x = x + 1
        return x, manager.seen, calm.seen

    check(f)


def test_traceback_that_exit_keeps():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            self.traceback = traceback
            return True

    def f(x):
        manager = Manager()
        with manager:
            {}["missing"]
        return x + 1, manager.traceback.tb_frame.f_code.co_name

    check(f, breaks=None)


def test_traceback_of_an_exception_that_leaves_its_handler():
    def f(x):
        kept = []
        for i in range(2):
            try:
                raise ValueError(i)
            except ValueError as error:
                kept.append(error)
        return x + 1, [error.__traceback__ is None for error in kept]

    check(f, breaks=None, warm=False)


def test_traceback_taken_away():
    def f(x):
        try:
            {}["missing"]
        except KeyError as error:
            same = error.with_traceback(None) is error, error.__traceback__
            error.__traceback__ = None
            try:
                raise error
            except KeyError as again:
                return x + 1, same, again is error

    check(f, breaks=None)


def test_fields_of_exceptions_made_before_a_break():
    class Numbered(OSError):
        def __init__(self, *args):
            super().__init__(*args)
            self.number = 1

    def f(x):
        missing, failed, own = OSError(2, "text", "file"), ImportError("m", name="n", path="p"), Numbered(1, "q", "r")
        framejit.graph_break()
        return x + 1, missing.filename, failed.name, failed.path, own.filename, own.number

    check(f, breaks=None)


def test_last_line_of_a_frame_that_an_exception_left():
    def fails(n):
        try:
            1 / n
        except ValueError:
            pass

    def f(x):
        try:
            fails(0)
        except ZeroDivisionError as error:
            frame = error.__traceback__.tb_next.tb_frame
            return x + 1, frame.f_lineno - frame.f_code.co_firstlineno

    check(f, breaks=None, graphs=None)


def raises_and_catches(x):
    y = x.sin()
    try:
        raise KeyError("inside")
    except KeyError as error:
        return y.cos(), repr(error.__context__)


def error_of_c_code(x):
    y = x.sin()
    try:
        return {}["missing"]
    except KeyError as error:
        return y.cos(), repr(error.__context__)


def raises_again(x):
    y = x.sin()
    try:
        raise
    except (RuntimeError, ValueError) as error:
        return y.cos(), repr(error)


def keeps_the_error(x):
    y = x.sin()
    error = None
    try:
        raise KeyError("inside")
    except KeyError as caught:
        error = caught
    return y.cos(), repr(error.__context__)


def in_a_handler(fn, *args):
    try:
        raise ValueError("outside")
    except ValueError:
        return fn(*args)


@pytest.mark.parametrize("first", [in_a_handler, lambda fn, *args: fn(*args)], ids=["in a handler", "outside"])
@pytest.mark.parametrize("fn", [raises_and_catches, error_of_c_code, raises_again, keeps_the_error])
def test_what_a_caller_handles_is_the_context(fn, first):
    compiled = framejit.to_static(fn)
    for call in (first, in_a_handler, lambda fn, *args: fn(*args), in_a_handler):
        with counts.counting() as counted:
            ours = call(compiled, x3())
        theirs = call(fn, x3())
        assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]
        assert counted.graphs or counted.hits


def test_context_after_a_break_in_the_handler():
    def f(x, n):
        try:
            raise ValueError(n)
        except ValueError:
            y = x.sin()
            framejit.graph_break()

            def inner():
                try:
                    try:
                        raise KeyError(n)
                    except KeyError:
                        raise
                except Exception as error:
                    return repr(error.__context__)

            framejit.graph_break()
            return y.cos(), inner(), inner()

    check(f, x3(), 3, breaks=None, graphs=None)


@pytest.mark.parametrize("breaks", [False, True])
def test_traceback_of_an_exception_that_its_handlers_do_not_take(breaks):
    def f(x, n):
        doubled = x * 2
        if breaks:
            framejit.graph_break()
        try:
            try:
                raise ValueError(n)
            except KeyError:
                doubled = None
        except OSError:
            n = 5
        return doubled

    def told(fn):
        with pytest.raises(ValueError) as caught:
            fn(x3(), 3)
        entries = [entry for entry in traceback.walk_tb(caught.tb) if entry[0].f_code.co_name == "f"]
        ((frame, line),) = entries
        found = frame.f_locals["doubled"], frame.f_locals["n"], set(frame.f_locals)
        return line, found[1:], found[0].tolist(), traceback.format_exception(None, caught.value, caught.tb)[-3:]

    compiled = framejit.to_static(f)
    with counts.counting() as counted:
        for _ in range(3):
            assert told(compiled) == told(f)
    assert counted.captures and counted.hits


def test_generator_held_by_the_traceback_of_an_exception():
    closed = []

    def f(x):
        def numbers():
            try:
                yield x + 1
            finally:
                closed.append(1)

        generator = numbers()
        first = next(generator)
        with torch.no_grad():
            try:
                raise ValueError(first)
            except KeyError:
                pass
        return first

    def closed_while_it_is_held(fn):
        closed.clear()
        with pytest.raises(ValueError) as caught:
            fn(x3())
        return len(closed), caught.tb is not None

    compiled = framejit.to_static(f)
    gc.collect()
    for _ in range(3):
        assert closed_while_it_is_held(compiled) == closed_while_it_is_held(f) == (0, True)
