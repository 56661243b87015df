"""Connects the C++ side with this process: error types, switches from the environment, what is never captured."""

import os
import sysconfig

from framejit import _C, _errors


def skipped_prefixes():
    """Beginnings of the file names whose frames run as they are when an uncaptured instruction reaches them.

    They may still be captured as callees of the user's code; these lists only say where no capture starts by itself.

    Returns:
        tuple: two lists, of the standard library and of torch and framejit. A capture does not end inside the first.
    """
    import torch

    paths = sysconfig.get_paths()
    # site-packages lies inside the standard library's folder, and is the user's code.
    standard = ["<frozen", "<string>", "<__array_function__"]
    for folder in sorted({paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}):
        standard += _inside(folder, keep=("site-packages", "dist-packages"))
    return standard, [os.path.dirname(module.__file__) + os.sep for module in (torch, _C)]


def _inside(folder, keep):
    """`folder` itself, or all in it but the folders named in `keep`, as prefixes of paths."""
    if not any(os.path.isdir(os.path.join(folder, name)) for name in keep):
        return [folder + os.sep]
    with os.scandir(folder) as entries:
        return [
            entry.path + (os.sep if entry.is_dir() else "")
            for entry in entries
            if entry.name not in keep and (entry.is_dir() or entry.name.endswith(".py"))
        ]


def start():
    """Called once, by the package's import."""
    _C.set_error_types(_errors.InternalError, _errors.GraphBreakError)
    _C.set_strict(os.environ.get("FRAMEJIT_STRICT", "0") not in ("", "0"))
    _C.set_skipped_prefixes(*skipped_prefixes())

    _C.start()
