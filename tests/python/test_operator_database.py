"""Each operator of PyTorch's own sample database does under `to_static` what it does eagerly.

One sample of each type by default; FRAMEJIT_OPERATOR_SAMPLES is another number, or `all` (about ten minutes).
FRAMEJIT_OPERATORS="sin add" runs those alone. Cells that have a column in docs/operators.md run all operators, each of the
others a third, so that three Pythons of one torch run all of them once more.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
import torch

import framejit
import operators
from framejit import _C
from support.skip_list import read

CELL = "py{}{}-torch{}".format(*sys.version_info[:2], metadata.version("torch").partition("+")[0])
RECORDED = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operators" / f"{CELL}.json"
# Their reasons stand beside them. LibTorch's kernels decide; the rules of graph/ agree with those.
LISTS = pathlib.Path(operators.__file__).parent
WRONG_META = read(str(LISTS / "wrong_meta_kernels.txt"))
LEFT_TO_KERNELS = read(str(LISTS / "left_to_kernels.txt"))
SAMPLES = os.environ.get("FRAMEJIT_OPERATOR_SAMPLES", "1")
NAMES = os.environ.get("FRAMEJIT_OPERATORS", "").split()
SECONDS = 1800
PARTS = 1 if RECORDED.exists() or NAMES or SAMPLES != "1" else 3

pytestmark = pytest.mark.runs_once("each call is made eagerly and compiled here")


@pytest.fixture(scope="module")
def found():
    """{operator: what both comparisons found}, from a process of its own; see operators/__main__.py."""
    packages = os.path.dirname(os.path.dirname(framejit.__file__))
    folder = os.path.dirname(os.path.abspath(__file__))
    env = dict(os.environ, PYTHONPATH=os.pathsep.join((packages, folder)), FRAMEJIT_STRICT="1")
    command = [sys.executable, "-X", "faulthandler", "-m", "operators", SAMPLES, str(PARTS), str(sys.version_info[1] % PARTS), *NAMES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded():
    """{operator: its row of the table}, empty where this Python and torch have no column."""
    return json.loads(RECORDED.read_text())["operators"] if RECORDED.exists() else {}


def differences(found, which):
    return "\n".join(text for row in found.values() for text in row[which]["differences"])


def test_compiled_does_what_eager_does(found):
    assert not differences(found, "calls")
    assert all(row["calls"]["samples"] + row["calls"]["refused"] > 0 for row in found.values()) or len(found) > 600 / PARTS
    assert sum(row["calls"]["captured"] for row in found.values()) > 0.8 * sum(row["calls"]["samples"] for row in found.values())


def test_inference_says_what_kernels_return(found):
    assert not differences(found, "inference")
    assert sum(row["inference"]["inferred"] for row in found.values()) > len(found)


def test_wrong_meta_kernels_are_those_listed(found):
    wrong = {name: text for row in found.values() for name, text in row["inference"]["wrong_meta"].items()}
    unlisted = [text for name, text in wrong.items() if name not in WRONG_META]
    assert not unlisted, "\n".join(unlisted)
    assert sum(row["inference"]["meta"] for row in found.values()) > len(found)


def test_calls_that_an_operator_refuses_are_refused_by_the_recorder(found):
    errors = collections.Counter()
    for row in found.values():
        errors.update(row["inference"]["errors"])
    # Errors in other words are differences of test_inference_says_what_kernels_return.
    left = {name: text for row in found.values() for name, text in row["inference"]["left_to_kernel"].items()}
    unlisted = [text for name, text in left.items() if name not in LEFT_TO_KERNELS]
    assert not unlisted, "\n".join(unlisted)
    assert NAMES or errors["same"] > 20 / PARTS and errors["same"] + errors["stopped"] > errors["later"], errors


def test_what_the_table_has_whole_is_captured_whole(found, recorded):
    whole = [name for name in found if name in recorded and recorded[name]["captured"] == recorded[name]["samples"]]
    broken = {name: found[name]["calls"]["reasons"] for name in whole if found[name]["calls"]["reasons"]}
    again = [name for name in whole if found[name]["calls"]["again"]]
    assert (broken, again) == ({}, [])


@pytest.mark.skipif(not RECORDED.exists(), reason="this Python and torch have no column in the table")
@pytest.mark.skipif(bool(NAMES), reason="FRAMEJIT_OPERATORS asks for some operators only")
def test_table_has_each_operator_and_no_other(found, recorded):
    assert list(recorded) == list(found)


# The comparisons find what is wrong, shown with an entry that needs no database.


def sine():
    def samples(op, device, dtype, requires_grad):
        x = torch.ones(3, dtype=dtype, device=device, requires_grad=requires_grad)
        return [SimpleNamespace(input=x, args=(), kwargs={}, broadcasts_input=False)]

    return SimpleNamespace(
        name="sin", variant_test_name="", op=torch.sin, sample_inputs_func=samples, error_inputs_func=None,
        supports_autograd=True, inplace_variant=torch.Tensor.sin_, supported_dtypes=lambda device: operators.DTYPES,
    )  # fmt: skip


def test_entry_without_differences():
    found = operators.measure(sine(), 1, (torch.float32,))
    assert (found["samples"], found["captured"], found["differences"]) == (3, 3, []), found
    inference = operators.compare_inference(sine(), 1, (torch.float32,))
    assert inference["calls"] == inference["inferred"] > 3 and not inference["differences"], inference


def test_wrong_result_is_found(monkeypatch):
    def wrong(function):
        return lambda *args, **kwargs: function(*args, **kwargs) + 1

    monkeypatch.setattr(framejit, "to_static", wrong)
    found = operators.measure(sine(), 1, (torch.float32,))
    assert found["captured"] == 0 and "result" in found["differences"][0], found


def test_wrong_inference_is_found(monkeypatch):
    monkeypatch.setattr(operators.inference, "infer", lambda func, args, kwargs: torch.empty(3, 3))
    found = operators.compare_inference(sine(), 1, (torch.float32,))
    assert len(found["differences"]) == found["inferred"] == found["calls"] > 0, found


def test_wrong_meta_kernel_is_found(monkeypatch):
    asked = operators.inference.infer

    def wrong(func, args, kwargs):
        meta_only = _C._testing.set_meta_only(False)
        _C._testing.set_meta_only(meta_only)
        return torch.empty(3, 3) if meta_only else asked(func, args, kwargs)

    monkeypatch.setattr(operators.inference, "infer", wrong)
    found = operators.compare_inference(sine(), 1, (torch.float32,))
    assert "aten::sin" in found["wrong_meta"] and found["meta"] == found["calls"] and not found["differences"], found


def negation():
    """An operator of which only a call that it refuses is known."""
    error = SimpleNamespace(sample_input=SimpleNamespace(input=torch.tensor([True]), args=(), kwargs={}))
    entry = sine()
    entry.name, entry.op, entry.sample_inputs_func = "neg", torch.neg, lambda op, device, dtype, requires_grad: []
    entry.error_inputs_func = lambda op, device: [error]
    return entry


def test_refused_call_is_refused_by_the_recorder():
    found = operators.compare_inference(negation(), 1, (torch.float32,))
    assert found["errors"] in ({"same": 1}, {"stopped": 1}) and not found["differences"], found


def test_call_that_is_left_to_the_kernel_is_found(monkeypatch):
    monkeypatch.setattr(operators.inference, "infer", lambda func, args, kwargs: torch.empty(3))
    found = operators.compare_inference(negation(), 1, (torch.float32,))
    assert found["errors"] == {"later": 1} and list(found["left_to_kernel"]) == ["aten::neg"], found


def test_error_in_other_words_is_found(monkeypatch):
    def refuse(func, args, kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr(operators.inference, "infer", refuse)
    found = operators.compare_inference(negation(), 1, (torch.float32,))
    assert "+ RuntimeError: no" in found["differences"][0] and not found["errors"], found
