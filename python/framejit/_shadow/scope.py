"""Which code is the program's own: its globals, cells and classes count as state; those of libraries do not."""

import functools
import os
import sys

from framejit import _paths

_excluded = []


def exclude(folder):
    """What lies in this folder is no code of the program either: the tests' own support."""
    _excluded.append(os.path.abspath(folder) + os.sep)
    is_user_code.cache_clear()


@functools.lru_cache(maxsize=None)
def _installed():
    return _paths.installed_prefixes()


@functools.lru_cache(maxsize=None)
def is_user_code(filename):
    """Whether code of this file name is neither Python's nor torch's, nor of an installed package.

    Sources that lie in no file are the user's: cells of a notebook, the prompt.
    """
    if filename.startswith("<"):
        return not filename.startswith(_paths.STANDARD_NAMES)
    return not os.path.abspath(filename).startswith(_installed() + tuple(_excluded))


def is_user_module(name):
    """Whether the module of this name is the user's, also where it is none: a name given to `exec`."""
    if name == "__main__" or name not in sys.modules:
        return True
    return is_user_code(getattr(sys.modules[name], "__file__", None) or _paths.STANDARD_NAMES[0])


def is_user_function(function):
    """Whether its code is the user's. Code of a text without a name is of the module whose globals it has: `python -c`."""
    if function.__code__.co_filename == "<string>":
        return is_user_module(function.__globals__.get("__name__", ""))
    return is_user_code(function.__code__.co_filename)


def is_user_class(cls):
    return is_user_module(cls.__module__)
