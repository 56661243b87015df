"""Runs GoogleTest (through ctest) and pytest for a cell and counts what they say."""

import glob
import os
import shutil
import threading
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

import builds
import cells
import steps
import venvs

PYTEST_SECONDS = 3000
CTEST_SECONDS = 900
LONG_SECONDS = 4 * 3600
LONG_TESTS = [
    "test_bytecode_cpython_tests.py",
    "test_generated_programs.py",
    "test_native_graphs.py",
    "test_random_aliases.py",
    "test_random_histories.py",
    "test_random_lives.py",
    "test_random_numbers.py",
]
LONG_COUNTS = {
    "FRAMEJIT_CPYTHON_TESTS": "all",
    "FRAMEJIT_GENERATED_GRAPHS": 10000,
    "FRAMEJIT_GENERATED_PROGRAMS": 20000,
    "FRAMEJIT_RANDOM_ALIASES": 2000,
    "FRAMEJIT_RANDOM_HISTORIES": 2000,
    "FRAMEJIT_RANDOM_NUMBERS": 5000,
    "FRAMEJIT_RANDOM_LIVES": 1000,
}
# What these look at is torch and the kernels, with whatever Python: the matrix runs them in its first and last cell.
VARIES_WITH_TORCH = [
    "test_cpp_operators.py",
    "test_memory.py",
    "test_native*.py",
    "test_operator_database.py",
    "test_ops.py",
]
# Of these, the kernels' CUDA text is the same with every torch, and long to compile for the host.
CUDA_TEXTS = ["test_native_cuda.py"]
# These compare with eager themselves, or run processes of their own.
COMPARES_BY_ITSELF = [
    "test_bytecode_*.py",
    "test_generated_programs.py",
    "test_leaks.py",
    "test_shadow*.py",
    "test_testing.py",
]
SHADOWED_CELL = "py312-torch2.4.1"
CUDA_CELL = "py313-torch2.15.0"  # NVRTC is among its packages, and needs no device

_shared_ctest_lock = threading.Lock()
_shared_ctest_done = set()


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(*[a + b for a, b in zip(self, other)])

    def __str__(self):
        return "%d passed, %d failed, %d skipped" % self


def count_junit(file):
    """The counts in a JUnit-like file, which both GoogleTest and pytest write."""
    if not os.path.exists(file):
        return Counts()
    passed = failed = skipped = 0
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return Counts(passed, failed, skipped)


def complain(name, log):
    steps.show("==== %s failed, the end of %s:\n%s" % (name, log, steps.tail(log, 150)))


def run_ctest(folder, env):
    name = os.path.basename(folder)
    reports = os.path.join(folder, "gtest")
    shutil.rmtree(reports, ignore_errors=True)
    command = ["ctest", "--test-dir", folder, "--output-on-failure", "--timeout", "300"]
    status, log = steps.run(command, name + " ctest", env=env, check=False, seconds=CTEST_SECONDS)
    counts = Counts()
    for file in glob.glob(os.path.join(reports, "*.xml")):
        counts += count_junit(file)
    if status != 0:
        complain(name + " ctest", log)
        # A program that crashed wrote no report.
        counts = counts._replace(failed=max(counts.failed, 1))
    return counts


def run_ctests(folders, env):
    """The shared rooms' tests run once for all the cells that use them."""
    counts = Counts()
    for folder in folders:
        if os.path.basename(folder).startswith("shared-"):
            with _shared_ctest_lock:
                if folder in _shared_ctest_done:
                    continue
                _shared_ctest_done.add(folder)
        counts += run_ctest(folder, env)
    return counts


def run_pytest(cell, env, arguments, what="pytest", seconds=PYTEST_SECONDS):
    report = os.path.join(cell.build, what + ".xml")
    if os.path.exists(report):
        os.remove(report)
    command = [
        cell.venv_python,
        "-m",
        "pytest",
        "-ra",
        "--tb=short",
        "--continue-on-collection-errors",
        "--junitxml=" + report,
    ] + arguments
    status, log = steps.run(command, cell.name + " " + what, env=env, check=False, seconds=seconds)
    counts = count_junit(report)
    if status not in (0, 5):  # 5: no tests collected
        complain(cell.name + " " + what, log)
        counts = counts._replace(failed=max(counts.failed, 1))
    return counts


def ignore(patterns):
    return ["--ignore-glob=" + steps.path("tests", "python", pattern) for pattern in patterns]


def left_out(cell):
    """The patterns of the test files that a run of the whole matrix leaves to other cells."""
    if cell.name == CUDA_CELL:
        return []
    return CUDA_TEXTS if cell == cells.matrix()[0] else VARIES_WITH_TORCH


def is_short(cell):
    """Whether a run of the whole matrix leaves tests of the cell to others, and runs none of them twice."""
    return "test_native*.py" in left_out(cell) and cell.name != SHADOWED_CELL


def run_shadowed(cell):
    """The tests again with each call of a static function made twice, eagerly and compiled, and compared."""
    steps.say("%s: pytest, shadowed" % cell.name)
    env = {"FRAMEJIT_STRICT": "1", "FRAMEJIT_SHADOW": "1", "OMP_NUM_THREADS": "1"}
    counts = run_pytest(cell, env, ignore(COMPARES_BY_ITSELF + VARIES_WITH_TORCH), "pytest-shadowed")
    steps.say("%s: shadowed, %s" % (cell.name, counts))
    return counts


def test_cpython(cell):
    """Set up and build one cell, and run CPython's own tests captured."""
    venvs.ensure(cell)
    builds.build(cell)
    steps.say("%s: CPython's tests, captured" % cell.name)
    env = {"FRAMEJIT_STRICT": "1", "FRAMEJIT_CPYTHON_TESTS": "all"}
    counts = run_pytest(cell, env, [steps.path("tests", "python", "test_bytecode_cpython_tests.py")], "cpython")
    steps.say("%s: CPython's tests, %s" % (cell.name, counts))
    return counts


def test_long(cell):
    """Set up and build one cell, and run what an ordinary run has a sample of, at length."""
    venvs.ensure(cell)
    builds.build(cell)
    steps.say("%s: long runs" % cell.name)
    env = {"FRAMEJIT_STRICT": "1", "OMP_NUM_THREADS": "1"}
    env.update((name, str(os.environ.get(name, count))) for name, count in LONG_COUNTS.items())
    files = [steps.path("tests", "python", name) for name in LONG_TESTS]
    counts = run_pytest(cell, env, files, "long", LONG_SECONDS)
    steps.say("%s: long runs, %s" % (cell.name, counts))
    return counts


def run_skip_list(cell, env):
    """A listed test that passes is a failure: the list must shrink."""
    command = [cell.venv_python, steps.path("tests", "python", "support", "skip_list.py")]
    status, log = steps.run(command, cell.name + " skip list", env=env, check=False, seconds=PYTEST_SECONDS)
    if status != 0:
        complain(cell.name + " skip list", log)
    return Counts(failed=int(status != 0))


def run_cuda_texts(cell, env):
    """What the tests made kernels of compiles for CUDA devices too."""
    command = [cell.venv_python, steps.path("tests", "python", "support", "cuda_texts.py"), env["FRAMEJIT_CUDA_TEXTS"]]
    status, log = steps.run(command, cell.name + " cuda texts", env=env, check=False, seconds=CTEST_SECONDS)
    steps.say("%s: %s" % (cell.name, steps.tail(log, 1).strip()))
    if status != 0:
        complain(cell.name + " cuda texts", log)
    return Counts(failed=int(status != 0))


def test_cell(cell, jobs=None, threads=None, arguments=(), ignored=()):
    """Set up, build and test one cell, but for the files of the patterns `ignored`."""
    env = {"FRAMEJIT_STRICT": "1"}
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    venvs.ensure(cell)
    folders = builds.build(cell, jobs)
    steps.say("%s: GoogleTest" % cell.name)
    counts = run_ctests(folders, env)
    steps.say("%s: pytest" % cell.name)
    with_cuda = cell.name == CUDA_CELL and not arguments
    if with_cuda:
        env["FRAMEJIT_CUDA_TEXTS"] = os.path.join(cell.build, "cuda_texts")
        shutil.rmtree(env["FRAMEJIT_CUDA_TEXTS"], ignore_errors=True)
        os.makedirs(env["FRAMEJIT_CUDA_TEXTS"])
    counts += run_pytest(cell, env, list(arguments) + ignore(ignored))
    if with_cuda:
        counts += run_cuda_texts(cell, env)
    if not arguments:
        counts += run_skip_list(cell, env)
    steps.say("%s: %s" % (cell.name, counts))
    return counts
