"""Connects the C++ side with this process: error types, switches from the environment, what is never captured."""

import os

from framejit import _C, _errors, _paths


def start():
    """Called once, by the package's import."""
    _C.set_error_types(_errors.InternalError, _errors.GraphBreakError)
    _C.set_strict(os.environ.get("FRAMEJIT_STRICT", "0") not in ("", "0"))
    _C.set_skipped_prefixes(*_paths.skipped_prefixes())

    _C.start()
