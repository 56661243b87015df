"""Tests of the lints and of ./dev's parts: each lint is fed a small tree that it must refuse, and one it must accept."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The last goes first: framejit, too, has a module named testing.
for folder in ("tools", "tools/lint", "tests/python/support", "python/framejit", "tools/dev"):
    sys.path.insert(0, str(ROOT / folder))


@pytest.fixture
def make_tree(tmp_path):
    """make_tree({"graph/a.h": "text"}) -> the folder that holds these files."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return make
