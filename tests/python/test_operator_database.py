"""Each operator of PyTorch's own sample database does under `to_static` what it does eagerly.

One sample of each type by default; FRAMEJIT_OPERATOR_SAMPLES is another number, or `all` (about ten minutes).
"""

import json
import os
import pathlib
import sys
from importlib import metadata

import pytest
import torch

import framejit
import operators

CELL = "py{}{}-torch{}".format(*sys.version_info[:2], metadata.version("torch").partition("+")[0])
RECORDED = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operators" / f"{CELL}.json"
ASKED = os.environ.get("FRAMEJIT_OPERATOR_SAMPLES", "1")
LIMIT = None if ASKED == "all" else int(ASKED)

pytestmark = pytest.mark.runs_once("each call is made eagerly and compiled here")


def recorded():
    """{operator: its row of the table}, empty where this Python and torch have no column."""
    return json.loads(RECORDED.read_text())["operators"] if RECORDED.exists() else {}


@pytest.mark.parametrize("op", operators.operators(), ids=operators.full_name)
def test_operator(op):
    found = operators.measure(op, LIMIT)
    assert not found["differences"], "\n".join(found["differences"])
    if found["samples"] + found["refused"] == 0:
        pytest.skip("the database has no samples of it for the CPU")
    row = recorded().get(operators.full_name(op))
    if row and row["captured"] == row["samples"]:  # whole in the table: it stays so
        assert found["captured"] == found["samples"] and found["again"] == 0, found


@pytest.mark.skipif(not RECORDED.exists(), reason="this Python and torch have no column in the table")
def test_table_has_each_operator_and_no_other():
    assert list(recorded()) == [operators.full_name(op) for op in operators.operators()]


def test_wrong_result_is_found(monkeypatch):
    def wrong(function):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            return result + 1 if result.is_floating_point() else result

        return call

    monkeypatch.setattr(framejit, "to_static", wrong)
    sine = next(op for op in operators.operators() if operators.full_name(op) == "sin")
    found = operators.measure(sine, 1, (torch.float32, torch.int64))
    assert found["captured"] == 0 and "result" in found["differences"][0], found


@pytest.mark.parametrize("op", operators.operators(), ids=operators.full_name)
def test_inference(op):
    """What the recorder says of each operator below autograd is what the kernels return, forward and backward."""
    found = operators.compare_inference(op, LIMIT)
    assert not found["differences"], "\n".join(found["differences"])
    if found["calls"] == 0:
        pytest.skip("no sample of it comes to an operator on the CPU")


def test_wrong_inference_is_found(monkeypatch):
    wrong = lambda func, args, kwargs: torch.empty(3, 3)  # noqa: E731
    monkeypatch.setattr(operators.inference, "infer", wrong)
    sine = next(op for op in operators.operators() if operators.full_name(op) == "sin")
    found = operators.compare_inference(sine, 1, (torch.float32,))
    assert len(found["differences"]) == found["inferred"] == found["calls"] > 0, found
