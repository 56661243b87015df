"""CPython's own tests pass while they, and all modules imported for them, run from re-assembled code, or captured."""

import os
import subprocess
import sys

import pytest

import framejit_bytecode

REASSEMBLED = [
    "test_grammar", "test_generators", "test_exceptions", "test_scope", "test_unpack", "test_with", "test_dict",
    "test_class", "test_contextlib", "test_coroutines",
]
CAPTURED = [
    "test_grammar", "test_scope", "test_unpack", "test_with", "test_class", "test_contextlib", "test_tuple", "test_bool",
    "test_string", "test_range", "test_slice",
]
RUNNER = os.path.join(os.path.dirname(__file__), "support", "cpython_tests.py")


def has_cpython_tests():
    try:
        import test.test_grammar  # noqa: F401
    except ImportError:
        return False
    return True


def run_tests(mode, name, folder):
    if not has_cpython_tests():
        pytest.skip("this interpreter comes without CPython's tests")
    package_path = os.path.dirname(os.path.dirname(framejit_bytecode.__file__))
    env = dict(os.environ, PYTHONPATH=package_path, PYTHONDONTWRITEBYTECODE="1")
    run = subprocess.run(
        [sys.executable, RUNNER, mode, name], cwd=str(folder), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        universal_newlines=True, timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:]


@pytest.mark.parametrize("name", REASSEMBLED)
def test_cpython_test_passes_from_reassembled_code(name, tmp_path):
    run_tests("reassembled", name, tmp_path)


@pytest.mark.parametrize("name", CAPTURED)
def test_cpython_test_passes_captured(name, tmp_path):
    run_tests("captured", name, tmp_path)
