"""Connects the C++ side with this process: error types, switches from the environment, what is never captured."""

import os

from framejit import _C, _errors, _paths


def start():
    """Called once, by the package's import."""
    _C.set_error_types(_errors.InternalError, _errors.GraphBreakError)
    _C.set_strict(os.environ.get("FRAMEJIT_STRICT", "0") not in ("", "0"))
    _C.set_skipped_prefixes(*_paths.skipped_prefixes())
    _C.start()
    _set_shadow(os.environ.get("FRAMEJIT_SHADOW", ""))
    if os.environ.get("FRAMEJIT_LOG"):
        from framejit import _log

        _log.start(os.environ["FRAMEJIT_LOG"])


def _set_shadow(text):
    if text in ("", "0"):
        return
    if not text.isdigit():
        raise ValueError("FRAMEJIT_SHADOW must be a number of calls, got {!r}".format(text))
    from framejit._shadow.compare import compare  # costs time, and few ask for it

    _C.set_shadow(int(text), compare)
