"""FRAMEJIT_SHADOW=N: one call in N of each static function, made both ways and compared."""

import contextlib
import os
import sys
import warnings

from framejit import _C, _errors
from framejit._shadow.account import Account
from framejit._shadow.snapshot import Snapshot
from framejit._shadow.surroundings import Surroundings, is_watched

SHOWN_LINES = 40
# framejit's own, and those that hang on how much of the stack or the memory is left.
NOT_COMPARED = (_errors.GraphBreakError, _errors.InternalError, RecursionError, MemoryError)
_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def compare(static, args, kwargs):
    """Make the call eagerly, put back what it did, make it compiled, and raise where the two differ.

    Returns:
        tuple or None: (result, exception or None, whether the two were compared). The effects that stay are those of the
        run that the result is of: the compiled one, or where something the eager run did cannot be put back, that one.
        None: nothing has run yet, for what is reached could not be put back.
    """
    if is_watched():
        return None
    try:
        snapshot = Snapshot(static, *args, *kwargs.values())
    except Exception:  # an object of the program that does not let itself be looked at
        return None
    if snapshot.lost:
        return None
    surroundings = Surroundings()
    target = static.__wrapped__

    def run_eagerly(*args, **kwargs):
        return _C.run_eagerly(target, args, kwargs)

    eager = Account(run_eagerly, args, kwargs, snapshot)
    if eager.undescribed or snapshot.lost_by_run() or surroundings.lost_by_run():
        return _answer(eager, False)
    snapshot.restore()
    surroundings.restore()
    with _no_warnings_shown():
        compiled = Account(static, args, kwargs, snapshot)
    if isinstance(compiled.raised, NOT_COMPARED) or compiled.undescribed:
        return _answer(compiled, False)
    difference = eager.difference(compiled)
    if difference:
        raise _errors.ShadowError(_described(target, difference)) from compiled.raised
    return _answer(compiled, True)


@contextlib.contextmanager
def _no_warnings_shown():
    """The eager run has shown them. Filters stay as they are: they may turn a warning into an exception."""
    shown = warnings.showwarning
    warnings.showwarning = nothing = lambda *args, **kwargs: None
    try:
        yield
    finally:
        if warnings.showwarning is nothing:
            warnings.showwarning = shown


def _answer(run, compared):
    sys.stdout.write(run.printed)
    if run.raised is None:
        return run.result, None, compared
    # The frames of this package are no part of the program's traceback.
    traceback = run.raised.__traceback__
    while traceback is not None and os.path.abspath(traceback.tb_frame.f_code.co_filename).startswith(_FOLDER):
        traceback = traceback.tb_next
    run.raised.__traceback__ = traceback
    return None, run.raised, compared


def _described(target, difference):
    code = target.__code__
    lines = difference.splitlines()
    if len(lines) > SHOWN_LINES:
        lines = lines[:SHOWN_LINES] + ["... and {} more lines".format(len(lines) - SHOWN_LINES)]
    return "{} ({}:{}): the compiled call differs from eager\n{}".format(
        target.__qualname__, code.co_filename, code.co_firstlineno, "\n".join(lines)
    )
