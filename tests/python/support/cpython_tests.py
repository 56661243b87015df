"""Runs one of CPython's own tests with framejit in the place of a part of the interpreter:

    python cpython_tests.py reassembled test_grammar
    python cpython_tests.py captured test_grammar [report.json]
    python cpython_tests.py scattered test_grammar [report.json [seed]]

reassembled: each code object that the import system compiles or loads, nested ones included, is decoded and assembled
again before it runs; so are the test module itself and what `compile`, `exec` and `eval` of a string are called with
inside it.
captured: every frame of the process goes through the simulator and regenerated code.
scattered: as captured, beside torch, but a random share of the functions of CPython's tests is left to the interpreter, so
that captures end at calls in the midst of others.
eager: nothing is replaced, to compare with.
eager_beside_torch: the same with torch, which puts functions of its own into the standard library.

The report says how many tests ran and the ids of those that failed.
"""

import builtins
import doctest
import importlib.machinery
import json
import os
import random
import signal
import sys
import types

from framejit_bytecode import _core

CODE = types.CodeType
COUNT = [0]


def reassemble(code):
    COUNT[0] += 1
    return _core.reassemble(code)


def install():
    loader = importlib.machinery.SourceFileLoader
    original_get_code = loader.get_code

    def get_code(self, fullname):
        code = original_get_code(self, fullname)
        return reassemble(code) if isinstance(code, CODE) else code

    loader.get_code = get_code

    original_compile = builtins.compile

    def patched_compile(*args, **kwargs):
        # compile() inherits the caller's __future__ flags, which a wrapper would hide.
        flags = sys._getframe(1).f_code.co_flags & FUTURE_FLAGS
        if not kwargs.get("dont_inherit", len(args) > 4 and args[4]):
            args, kwargs = with_flags(args, kwargs, flags)
        code = original_compile(*args, **kwargs)
        return reassemble(code) if isinstance(code, CODE) else code

    builtins.compile = patched_compile


def nested_codes(code):
    for constant in code.co_consts:
        if isinstance(constant, CODE):
            yield constant
            yield from nested_codes(constant)


def scatter(seed):
    import torch

    import framejit
    from framejit import _C

    chance = random.Random(seed)
    share = chance.uniform(0.15, 0.4)
    loader = importlib.machinery.SourceFileLoader
    original_get_code = loader.get_code

    def get_code(self, fullname):
        code = original_get_code(self, fullname)
        if isinstance(code, CODE) and fullname.startswith("test."):
            for nested in nested_codes(code):
                if chance.random() < share:
                    _C.mark_eager(nested)
        return code

    loader.get_code = get_code
    # The standard library is the program here.
    _C.set_skipped_prefixes([], [os.path.dirname(module.__file__) for module in (torch, framejit)])
    _core.capture_everything()


def with_flags(args, kwargs, flags):
    args = list(args)
    if len(args) > 3:
        args[3] |= flags
    else:
        kwargs = dict(kwargs, flags=kwargs.get("flags", 0) | flags)
    return args, dict(kwargs, dont_inherit=True) if len(args) <= 4 else kwargs


def future_flags():
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


FUTURE_FLAGS = future_flags()


def replaced():
    """How much of the interpreter's work framejit did."""
    return COUNT[0] or _core.capture_stats()["hits"]


def test_id(case):
    """Without the package's name; of a subtest, its test's."""
    return getattr(case, "test_case", case).id().replace("test.", "", 1)


def write_report(path, result):
    failed = {test_id(case) for case, _ in result.failures + result.errors}
    failed.update(test_id(case) for case in result.unexpectedSuccesses)
    with open(path, "w") as file:
        json.dump({"tests": result.testsRun, "failed": sorted(failed), "replaced": replaced()}, file)


def main():
    mode, name = sys.argv[1:3]
    report = sys.argv[3] if len(sys.argv) > 3 else None
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    sys.argv[1:] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process that was started in the background ignores it
    # Fresh copies of what the start-up has loaded already would be other modules; the tests' own modules are new.
    import unittest

    modes = {
        "reassembled": install,
        "captured": _core.capture_everything,
        "scattered": lambda: scatter(seed),
        "eager": lambda: None,
        "eager_beside_torch": lambda: __import__("torch"),
    }
    modes[mode]()
    module = __import__("test." + name, fromlist=["x"])
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    # Before 3.10 doctests ran from test_main.
    if not hasattr(module, "load_tests") and (hasattr(module, "__test__") or suite.countTestCases() == 0):
        suite.addTests(doctest.DocTestSuite(module))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    print("%s: %d" % (mode, replaced()))
    if report:
        write_report(report, result)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 and (replaced() > 0 or mode.startswith("eager")) else 1)


if __name__ == "__main__":
    main()
