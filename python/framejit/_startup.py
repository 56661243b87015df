"""Connects the C++ side with this process: error types, switches from the environment, what is never captured."""

import os
import sys

from framejit import _C, _errors, _graphs, _paths


def start():
    """Called once, by the package's import."""
    _C.set_error_types(_errors.InternalError, _errors.GraphBreakError)
    _C.set_strict(os.environ.get("FRAMEJIT_STRICT", "0") not in ("", "0"))
    standard, libraries = _paths.skipped_prefixes()
    _C.set_skipped_prefixes(standard, libraries)
    _C.set_graph_hooks(_graphs.GraphValue, _errors.GraphError, libraries)
    _C.start()
    _tell_meta_kernels_the_device()
    _set_shadow(os.environ.get("FRAMEJIT_SHADOW", ""))
    if os.environ.get("FRAMEJIT_LOG"):
        from framejit import _log

        _log.start(os.environ["FRAMEJIT_LOG"])


def _tell_meta_kernels_the_device():
    """torch's Meta kernels in Python take a meta tensor for one of CUDA, and answer with the layouts that CUDA has.

    Outside of a capture of framejit's their question is answered as before.
    """
    kernels = sys.modules.get("torch._meta_registrations")
    guess = getattr(kernels, "device_hint", None)
    if guess is None:
        return

    def device_hint(tensor):
        return _C.device_of_meta_call() or guess(tensor)

    kernels.device_hint = device_hint


def _set_shadow(text):
    if text in ("", "0"):
        return
    if not text.isdigit():
        raise ValueError("FRAMEJIT_SHADOW must be a number of calls, got {!r}".format(text))
    from framejit._shadow.compare import compare  # costs time, and few ask for it

    _C.set_shadow(int(text), compare)
