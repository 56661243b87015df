"""skip_lists/pyXY.txt: the tests that are not run on one Python.

A line is `<pytest id>  # <reason>`; the id of a parametrised test may leave out its [parameters]. Ordinary runs skip
the listed tests. `python tests/python/support/skip_list.py` runs each in a process of its own and fails if one passes
or no longer exists, so the lists can only shrink.
"""

import os
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RUN_LISTED = "FRAMEJIT_RUN_LISTED_TESTS"  # set: listed tests run like any other
TEST_SECONDS = 300


def path_for_this_python(root=REPOSITORY):
    return os.path.join(root, "skip_lists", "py{}{}.txt".format(*sys.version_info[:2]))


def parse(text, path):
    """{id: reason} of a list's text. A line without a reason is an error."""
    entries = {}
    for number, line in enumerate(text.splitlines(), 1):
        test_id, _, reason = line.partition("  #")
        test_id, reason = test_id.strip(), reason.strip()
        if not test_id or test_id.startswith("#"):
            continue
        if not reason:
            raise ValueError("{}:{}: no reason given for {}".format(path, number, test_id))
        entries[test_id] = reason
    return entries


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return parse(f.read(), path)


def reason_for(test_id, entries):
    return entries.get(test_id) or entries.get(test_id.partition("[")[0])


def is_shadowed():
    return os.environ.get("FRAMEJIT_SHADOW", "0") != "0"


def pytest_collection_modifyitems(config, items):
    import pytest

    entries = {} if os.environ.get(RUN_LISTED) else read(path_for_this_python(str(config.rootpath)))
    for item in items:
        reason = reason_for(item.nodeid, entries)
        if reason:
            item.add_marker(pytest.mark.skip(reason="skip list: " + reason))
        once = item.get_closest_marker("runs_once")
        if once and is_shadowed():
            item.add_marker(pytest.mark.skip(reason="shadowed calls run twice: " + once.args[0]))


def complaint_about(test_id, root):
    """What is wrong with keeping `test_id` on the list, or None: it still fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test_id]
    try:
        run = subprocess.run(
            command, cwd=root, env=dict(os.environ, **{RUN_LISTED: "1"}), timeout=TEST_SECONDS, stdout=subprocess.PIPE
        )
    except subprocess.TimeoutExpired:
        return None
    if run.returncode == 0:
        return "passes now"
    if run.returncode in (4, 5):  # pytest: usage error, no tests collected
        return "names no test"
    return None


def main(root=REPOSITORY):
    path = path_for_this_python(root)
    complaints = 0
    for test_id in read(path):
        complaint = complaint_about(test_id, root)
        if complaint:
            complaints += 1
            print("{}: {} {}: take its line out".format(os.path.relpath(path, root), test_id, complaint))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
