"""try in all its forms, what is raised in it, and with."""

from __future__ import annotations

from .rows import row

TROUBLE = [
    "$T = raising_helper($t, $k)",
    "raise ValueError($k)",
    "raise Signal($k, extra=$t)",
    "$T = table['missing']",
    "$T = $t[99]",
    "$T = $t + torch.ones(17)",
    "$T = torch.cat([])",
    "$T = $t.view(3, 77)",
    "$T = $t.missing",
    "$N = $k // ($j - $j)",
    "assert $k == 77, f'{$k} is not 77'",
    "if $d: raise KeyError($k)",
    "pass",
]
HANDLED = ["ValueError", "(KeyError, ValueError)", "Exception", "(IndexError, RuntimeError)", "LookupError"]

STATEMENTS = [
    row(
        "try, except",
        """
        try:
            $block
            $trouble
        except $handled as error:
            LOG.append(repr(error))
            $block
        """,
        weight=4,
        trouble=TROUBLE,
        handled=HANDLED,
    ),
    row(
        "try, finally",
        """
        try:
            $block
        finally:
            $brk
            LOG.append('finally')
            $block
        """,
        weight=2,
    ),
    row(
        "try, except, else, finally",
        """
        try:
            $trouble
            $brk
        except $handled:
            $T = $e
        else:
            $block
        finally:
            $plain
        """,
        weight=2,
        trouble=TROUBLE,
        handled=HANDLED,
    ),
    row(
        "several handlers",
        """
        try:
            $block
            $trouble
        except Signal as error:
            LOG.append((error.args, error.extra is None))
        except (ValueError, LookupError):
            $block
        except RuntimeError as error:
            LOG.append(type(error).__name__)
        """,
        trouble=TROUBLE,
    ),
    row(
        "re-raise",
        """
        try:
            try:
                $trouble
                $brk
            except $handled:
                $brk
                LOG.append('passing')
                raise
        except Exception as error:
            LOG.append((type(error).__name__, error.__context__ is None))
        """,
        trouble=TROUBLE,
        handled=HANDLED,
    ),
    row(
        "raise from",
        """
        try:
            try:
                $trouble
            except $handled as error:
                $brk
                raise Signal($k) from $cause
        except Signal as error:
            LOG.append((error, error.__cause__, error.__suppress_context__))
        except Exception as error:
            LOG.append(repr(error))
        """,
        trouble=TROUBLE,
        handled=HANDLED,
        cause=["error", "None", "KeyError('cause')"],
    ),
    row(
        "exception in a handler",
        """
        try:
            try:
                raise ValueError($k)
            except ValueError:
                $block
                $trouble
        except Exception as error:
            LOG.append((repr(error), repr(error.__context__)))
        """,
        trouble=TROUBLE,
    ),
    row(
        "retry in a loop",
        """
        for $new_try in range(3):
            try:
                $T = raising_helper($t, $new_try + $k)
                $brk
                break
            except ValueError:
                $brk
                continue
            finally:
                LOG.append($new_try)
        """,
    ),
    row(
        "leaving through finally",
        """
        for $new_i in range(2):
            try:
                $loop
                if $c:
                    $leave
            finally:
                $brk
                LOG.append($new_i)
        """,
        leave=["break", "continue"],
    ),
    row("exception that leaves the function", "if $test: raise $what", test=["$k > 4", "$k == 3 and $d"], what=["Signal($k)", "ValueError('late', $k)"]),
    row("exception kept", "try:\n    $trouble\nexcept Exception as error:\n    table['error'] = error.args", trouble=TROUBLE),
    row(
        "exception group",
        """
        try:
            raise ExceptionGroup('several', [ValueError($k), KeyError('b'), $third])
        except* ValueError as group:
            LOG.append(repr(group.exceptions))
            $plain
        except* (KeyError, TypeError) as group:
            $brk
            LOG.append(len(group.exceptions))
        """,
        since=(3, 11),
        third=["TypeError(1)", "ExceptionGroup('inner', [ValueError(2)])"],
    ),
    row(
        "exception caught by except*",
        """
        try:
            try:
                $trouble
                $brk
            except* ValueError as group:
                LOG.append(group.message)
        except Exception as error:
            LOG.append(type(error).__name__)
        """,
        since=(3, 11),
        trouble=TROUBLE,
    ),
    row(
        "with",
        """
        with $manager:
            $block
        """,
        weight=3,
        manager=["torch.no_grad()", "torch.enable_grad()", "Guarded(False)", "Guarded(True)", "BreakingGuard()", "contextlib.nullcontext()"],
    ),
    row(
        "with a target",
        """
        with managed($t, $handle) as $new_v:
            $T = $new_v + $k
            $block
        """,
        handle=["True", "False"],
    ),
    row(
        "several managers at once",
        """
        with Guarded($suppress) as $new_two, $other:
            $N = $new_two + $k
            $block
        """,
        suppress=["True", "False"],
        other=["torch.no_grad()", "managed($t, True)", "BreakingGuard()"],
    ),
    row(
        "exception suppressed by with",
        """
        with $manager:
            $block
            $trouble
        """,
        weight=2,
        manager=["Guarded(True)", "managed($t, True)", "contextlib.suppress(ValueError, LookupError)", "contextlib.suppress(Exception)"],
        trouble=TROUBLE,
    ),
    row(
        "ExitStack",
        """
        with contextlib.ExitStack() as $new_stack:
            $new_stack.enter_context($manager)
            $new_stack.callback(LOG.append, $k)
            $block
        """,
        manager=["Guarded(True)", "managed($t, True)", "torch.no_grad()"],
    ),
    row(
        "leaving through with",
        """
        for $new_i in range(3):
            with $manager:
                $T = $e
                if $test:
                    $leave
                $brk
        """,
        manager=["Guarded(False)", "managed($t, False)", "torch.no_grad()"],
        test=["$c", "$d"],
        leave=["break", "continue"],
    ),
]
