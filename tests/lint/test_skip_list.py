import os
import subprocess
import sys

import pytest
import skip_list

TESTS = "def test_good(): pass\ndef test_bad(): assert False\n"
CONFTEST = "import sys\nsys.path.insert(0, {!r})\nfrom skip_list import pytest_collection_modifyitems\n".format(
    os.path.dirname(skip_list.__file__)
)
LIST = os.path.relpath(skip_list.path_for_this_python("/"), "/")


def run_pytest(root):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", root, root]
    env = {key: value for key, value in os.environ.items() if key != skip_list.RUN_LISTED}
    return subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE).stdout.decode()


def test_listed_test_is_skipped(make_tree):
    root = make_tree({"test_a.py": TESTS, "conftest.py": CONFTEST, LIST: "test_a.py::test_bad  # fails here\n"})
    assert "1 passed, 1 skipped" in run_pytest(root)


def test_list_of_failing_tests_is_accepted(make_tree):
    root = make_tree({"test_a.py": TESTS, "conftest.py": CONFTEST, LIST: "test_a.py::test_bad  # fails here\n"})
    assert skip_list.main(root) == 0


@pytest.mark.parametrize("entry, complaint", [("test_good", "passes now"), ("test_gone", "names no test")])
def test_entry_that_passes_or_is_gone_is_refused(make_tree, capfd, entry, complaint):
    root = make_tree({"test_a.py": TESTS, "conftest.py": CONFTEST, LIST: "test_a.py::%s  # why\n" % entry})
    assert skip_list.main(root) == 1
    assert complaint in capfd.readouterr().out


def test_entry_without_a_reason_is_refused():
    with pytest.raises(ValueError, match="no reason"):
        skip_list.parse("# a comment\n\ntest_a.py::test_bad\n", "list")


def test_id_without_parameters_covers_all_of_them():
    entries = skip_list.parse("test_a.py::test_bad  # why\n", "list")
    assert skip_list.reason_for("test_a.py::test_bad[3-x]", entries) == "why"
    assert skip_list.reason_for("test_a.py::test_badder", entries) is None
