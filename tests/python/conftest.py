"""What all Python tests share: FRAMEJIT_STRICT, so an internal failure raises, and the skip lists."""

import os
import platform
import sys

# Before any test imports framejit.
os.environ["FRAMEJIT_STRICT"] = "1"

from support.fixtures import (  # noqa: E402, F401
    fresh_framejit,
    pytest_collection_finish,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    settled_heap,
)
from support.skip_list import pytest_collection_modifyitems  # noqa: E402, F401


def pytest_report_header(config):
    debug = " debug build" if hasattr(sys, "gettotalrefcount") else ""
    return "CPython {}{}".format(platform.python_version(), debug)
