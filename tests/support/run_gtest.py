"""Run a GoogleTest library inside this interpreter: run_gtest.py LIBRARY [MODULE...] [--gtest_...].

The modules are imported first. The tests run with the GIL held and no Python error set.
"""

import ctypes
import importlib
import sys


def main():
    library = sys.argv[1]
    modules = [arg for arg in sys.argv[2:] if not arg.startswith("--")]
    for module in modules:
        importlib.import_module(module)
    argv = [library] + [arg for arg in sys.argv[2:] if arg.startswith("--")]
    c_argv = (ctypes.c_char_p * (len(argv) + 1))(*[arg.encode() for arg in argv], None)
    return ctypes.PyDLL(library).framejit_run_gtests(len(argv), c_argv)


if __name__ == "__main__":
    sys.exit(main())
