"""Each construct of docs/constructs.md does what eager does, with the graphs and breaks that the table shows."""

import json
import pathlib
import sys
from importlib import metadata

import pytest

import constructs

CELL = "py{}{}-torch{}".format(*sys.version_info[:2], metadata.version("torch").partition("+")[0])
RECORDED = pathlib.Path(__file__).resolve().parents[2] / "docs" / "constructs" / f"{CELL}.json"


def recorded():
    """{name: the account in the table}, empty where this Python and torch have no column."""
    return json.loads(RECORDED.read_text())["constructs"] if RECORDED.exists() else {}


@pytest.mark.parametrize("construct", constructs.ALL, ids=lambda construct: construct.name.replace(" ", "-"))
def test_construct(construct):
    constructs.check(construct, recorded().get(construct.name))


@pytest.mark.skipif(not RECORDED.exists(), reason="this Python and torch have no column in the table")
def test_table_has_each_construct_and_no_other():
    assert list(recorded()) == [construct.name for construct in constructs.ALL]
