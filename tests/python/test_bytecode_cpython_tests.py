"""CPython's own tests pass while they, and all modules imported for them, run from re-assembled code, or captured.

FRAMEJIT_CPYTHON_TESTS=all runs all modules of support/cpython_modules.txt captured, else a sample of them.
FRAMEJIT_CPYTHON_SECONDS=900 lets each module run longer than the 300 seconds that it has, on a machine that has other work.
FRAMEJIT_CPYTHON_SCATTERED=10 runs them scattered as well (support/cpython_tests.py), with the seeds from 0 to 9; else a few are, with one.
"""

import json
import os
import subprocess
import sys

import pytest

import framejit_bytecode
from support import skip_list

REASSEMBLED = [
    "test_grammar", "test_generators", "test_exceptions", "test_scope", "test_unpack", "test_with", "test_dict",
    "test_class", "test_contextlib", "test_coroutines",
]
SAMPLE = [
    "test_grammar", "test_scope", "test_unpack", "test_with", "test_class", "test_contextlib", "test_tuple", "test_bool",
    "test_string", "test_range", "test_slice",
]
SCATTERED = ["test_scope", "test_contextlib", "test_class"]
SUPPORT = os.path.join(os.path.dirname(__file__), "support")
RUNNER = os.path.join(SUPPORT, "cpython_tests.py")
SECONDS = int(os.environ.get("FRAMEJIT_CPYTHON_SECONDS", "300"))
AT_TIMES = "at times: "  # so begins the reason of a listed test that may pass


def captured_modules():
    if os.environ.get("FRAMEJIT_CPYTHON_TESTS") != "all":
        return SAMPLE
    with open(os.path.join(SUPPORT, "cpython_modules.txt")) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def scattered_runs():
    """(module, seed)"""
    seeds = int(os.environ.get("FRAMEJIT_CPYTHON_SCATTERED", "0"))
    return [(name, seed) for seed in range(seeds) for name in captured_modules()] or [(name, 0) for name in SCATTERED]


def listed_tests(module):
    """{id: reason} of the module's tests that are known to fail captured on this Python."""
    name = "py{}{}.txt".format(*sys.version_info[:2])
    listed = skip_list.read(os.path.join(skip_list.REPOSITORY, "skip_lists", "cpython", name))
    return {test: reason for test, reason in listed.items() if test.partition(".")[0] == module}


def need_cpython_tests(module):
    if not any(os.path.exists(os.path.join(folder, module + end)) for folder in folders_of_tests() for end in (".py", "")):
        pytest.skip("this interpreter comes without CPython's " + module)


def folders_of_tests():
    try:
        import test.support
    except ImportError:
        return []
    return test.__path__


def run_module(mode, name, folder, *more):
    package_path = os.path.dirname(os.path.dirname(framejit_bytecode.__file__))
    env = dict(os.environ, PYTHONPATH=package_path, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", RUNNER, mode, name, *more], cwd=str(folder), env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
        errors="replace", timeout=SECONDS,
    )


def failing_tests(mode, name, folder, *more):
    """The ids of the tests that fail, and what the run printed. Of a run that does not end by itself, the module's name."""
    report = os.path.join(str(folder), mode + ".json")
    if os.path.exists(report):
        os.remove(report)
    try:
        run = run_module(mode, name, folder, report, *more)
    except subprocess.TimeoutExpired:
        return {name}, "it ran longer than {} s".format(SECONDS)
    if not os.path.exists(report):
        return {name}, run.stdout
    with open(report) as file:
        outcome = json.load(file)
    assert outcome["tests"] > 0 and (outcome["replaced"] > 0) != mode.startswith("eager"), outcome
    return set(outcome["failed"]), run.stdout


@pytest.mark.parametrize("name", REASSEMBLED)
def test_cpython_test_passes_from_reassembled_code(name, tmp_path):
    need_cpython_tests(name)
    run = run_module("reassembled", name, tmp_path)
    assert run.returncode == 0, run.stdout[-4000:]


@pytest.mark.parametrize("name", captured_modules())
def test_cpython_test_passes_captured(name, tmp_path):
    need_cpython_tests(name)
    fail_eagerly, printed = failing_tests("eager", name, tmp_path)
    if name in fail_eagerly:
        pytest.skip("it does not run eagerly either: " + printed[-200:])
    failing, printed = failing_tests("captured", name, tmp_path)
    lost, listed = failing - fail_eagerly, listed_tests(name)
    new = sorted(lost - set(listed))
    assert not new, "{} fail captured:\n{}".format(new, printed[-6000:])
    passing = sorted(test for test in set(listed) - lost if not listed[test].startswith(AT_TIMES))
    assert not passing, "{} pass now: take them off the list".format(passing)


@pytest.mark.parametrize("name,seed", scattered_runs())
def test_cpython_test_passes_scattered(name, seed, tmp_path):
    need_cpython_tests(name)
    fail_eagerly, printed = failing_tests("eager_beside_torch", name, tmp_path)
    if name in fail_eagerly:
        pytest.skip("it does not run eagerly either: " + printed[-200:])
    failing, printed = failing_tests("scattered", name, tmp_path, str(seed))
    new = sorted(failing - fail_eagerly - set(listed_tests(name)))
    assert not new, "{} fail scattered:\n{}".format(new, printed[-6000:])
