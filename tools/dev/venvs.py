"""Virtual environments in .venv/<cell>, filled by uv with what tools/requirements pins."""

import os
import shutil
import sys
import threading

import cells
import steps
import system

DEBUG_SUFFIX_MODULE = '''"""Lets a debug interpreter import extensions that were built for the release build of its version.

Since 3.8 both have one ABI; Debian's debug builds look for such files by themselves, others do not.
"""
import sys
from importlib.machinery import (BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader,
                                 FileFinder, SourceFileLoader, SourcelessFileLoader)

_release = [name.replace("d-", "-", 1) for name in EXTENSION_SUFFIXES if ".cpython-" in name and "d-" in name]
_missing = [name for name in _release if name not in EXTENSION_SUFFIXES]
if _missing:
    sys.path_hooks.insert(0, FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES + _missing), (SourceFileLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES)))
    sys.path_importer_cache.clear()
'''


# What nearly all test processes import. Where Python is told to write no bytecode (PYTHONDONTWRITEBYTECODE), as images
# of containers do, each of them would compile it again.
IMPORTED = "hypothesis, numpy, pytest, sympy, torch, torch.testing"

UV_LOCK = threading.Lock()  # cells are prepared by threads


def find_uv():
    """A uv that runs. Where there is none, one is installed into .dev/uv with pip."""
    with UV_LOCK:
        return _find_uv()


def _find_uv():
    for candidate in (shutil.which("uv"), steps.path(".dev", "uv", "bin", "uv")):
        if candidate and steps.output_of([candidate, "--version"]):
            return candidate
    folder = steps.path(".dev", "uv")
    steps.say("uv: installing into %s" % os.path.relpath(folder, steps.ROOT))
    if not steps.output_of([sys.executable, "-c", "import ensurepip, venv; print(1)"]):
        system.ensure({"python3-venv": "/nonexistent"}, "python3-venv")
    steps.run([sys.executable, "-m", "venv", folder], "venv for uv")
    steps.run([os.path.join(folder, "bin", "pip"), "install", "-q", "uv"], "pip install uv")
    return os.path.join(folder, "bin", "uv")


def site_packages(cell):
    return os.path.join(cell.venv, "lib", "python" + cell.python, "site-packages")


def ensure(cell):
    """Make the cell's environment exist and hold what is pinned for it."""
    if cell.debug_python:
        ensure_debug(cell)
        return
    interpreter = cells.find_interpreter(cell.python)
    if interpreter is None:
        raise steps.Failure("Python %s is not on this machine" % cell.python)
    system.ensure_python_headers(interpreter.path, interpreter.include)
    key = steps.digest(interpreter.path, *[steps.read(file) for file in cell.requirements])
    stamp = os.path.join(cell.venv, ".framejit-setup")
    if steps.is_done(stamp, key) and os.path.exists(cell.venv_python):
        steps.say("%s: environment is up to date" % cell.name)
        return
    uv = find_uv()
    if not os.path.exists(cell.venv_python):
        steps.say("%s: making the environment from %s" % (cell.name, interpreter.path))
        steps.run([uv, "venv", "-q", "--python", interpreter.path, cell.venv], cell.name + " venv")
    steps.say("%s: installing torch %s and the pinned packages" % (cell.name, cell.torch))
    install = [uv, "pip", "install", "-q", "--python", cell.venv_python]
    for file in cell.requirements:
        install += ["-r", file]
    steps.run(install, cell.name + " packages")
    steps.run([cell.venv_python, "-c", "import " + IMPORTED], cell.name + " bytecode", {"PYTHONDONTWRITEBYTECODE": ""})
    steps.mark_done(stamp, key)


def ensure_debug(cell):
    """A debug interpreter uses the packages of the release cell of its version, by a link."""
    release = cell._replace(debug_python=None)
    ensure(release)
    if not os.path.exists(cell.venv_python):
        steps.say("%s: making the environment from %s" % (cell.name, cell.debug_python))
        steps.run([cell.debug_python, "-m", "venv", "--without-pip", cell.venv], cell.name + " venv")
    write_if_changed(os.path.join(site_packages(cell), "_framejit_debug_suffixes.py"), DEBUG_SUFFIX_MODULE)
    # The release cell's own .pth files are not read: its framejit is built for the other interpreter.
    lines = "import _framejit_debug_suffixes\n%s\n" % site_packages(release)
    write_if_changed(os.path.join(site_packages(cell), "framejit-debug.pth"), lines)


def link_build(cell):
    """Put the cell's built packages on its interpreter's path."""
    packages = os.path.join(cell.build, "packages")
    write_if_changed(os.path.join(site_packages(cell), "framejit-dev.pth"), packages + "\n")


def write_if_changed(file, text):
    if steps.read(file) != text:
        with open(file, "w") as f:
            f.write(text)
