"""Debian packages: what is missing is installed by root, and named in one line for anybody else."""

import os
import shutil

import steps

# Package -> how to see that it is there: a program on PATH or a file.
BUILD = {
    "cmake": "cmake",
    "ninja-build": "ninja",
    "g++": "g++",
    "ccache": "ccache",
    "git": "git",
    "libfmt-dev": "/usr/include/fmt/format.h",
    "googletest": "/usr/src/googletest/googletest/src/gtest-all.cc",
    "llvm-19-dev": "/usr/lib/llvm-19/bin/llvm-config",
    "libzstd-dev": "/usr/include/zstd.h",
    "zlib1g-dev": "/usr/include/zlib.h",
}
LINT = {"clang-format": "clang-format", "clang-tidy": "clang-tidy"}
DEBUG_PYTHON = {
    "python3.11-dbg": "/usr/bin/python3.11-dbg",
    "libpython3.11-dbg": "/usr/include/python3.11d/Python.h",
    "python3.11-dev": "/usr/include/python3.11/Python.h",
}
BROWSER = {"chromium": "chromium"}


def is_there(sign):
    return os.path.exists(sign) if sign.startswith("/") else shutil.which(sign) is not None


def ensure(packages, what):
    """Make the packages of `packages` (package -> sign) present, or fail with the line to type."""
    missing = sorted(name for name, sign in packages.items() if not is_there(sign))
    if not missing:
        steps.say("%s: present" % what)
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends"] + missing
    if shutil.which("apt-get") is None:
        raise steps.Failure("%s: please install the like of Debian's %s" % (what, " ".join(missing)))
    if os.geteuid() != 0:
        raise steps.Failure("%s are missing, please type:\n  sudo %s" % (what, " ".join(install)))
    steps.say("%s: installing %s" % (what, " ".join(missing)))
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    steps.run(["apt-get", "update"], "apt-get update", env=quiet)
    steps.run(install, "apt-get install", env=quiet)


def wish(packages, what):
    """The same, but where they cannot be had the tests that want them are skipped, and say so."""
    try:
        ensure(packages, what)
    except steps.Failure as failure:
        steps.say("%s: not here, tests are skipped: %s" % (what, str(failure).splitlines()[0]))


def ensure_python_headers(executable, include):
    """Debian's own interpreters have their headers in a package apart; all others bring them along."""
    header = os.path.join(include, "Python.h")
    if os.path.exists(header):
        return
    name = os.path.basename(os.path.realpath(executable))
    if os.path.realpath(executable).startswith("/usr/bin/"):
        ensure({name + "-dev": header}, "headers of " + name)
    else:
        raise steps.Failure("%s has no headers: %s is missing" % (executable, header))
