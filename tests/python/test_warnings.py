"""Warnings that torch's own Python code gives: each call shows those that eager would show."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

WARNING = {
    "softmax without a dimension": lambda x: F.softmax(x),
    "loss of other sizes": lambda x: F.mse_loss(x, x.sum(1, keepdim=True)),
    "loss with old arguments": lambda x: F.l1_loss(x, x + 1, size_average=True),
    "mean that is none": lambda x: F.kl_div(x, x.exp()),
}


def x34():
    return torch.linspace(0.1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize("name", WARNING)
def test_program_that_records_them(name):
    call = WARNING[name]

    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = call(x.sin())
        return y.cos(), [str(warning.message) for warning in seen]

    assert_same_as_eager(f, x34(), graphs=None, breaks=None, fallbacks=None, cold_runs=2)
    assert len(framejit.to_static(f)(x34())[1]) == 1


@pytest.mark.parametrize("name", WARNING)
def test_caller_that_records_them(name):
    call = WARNING[name]
    compiled = framejit.to_static(lambda x: call(x.sin()).cos())
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen, counts.counting() as counted:
            warnings.simplefilter("always")
            compiled(x34())
        assert len(seen) == 1 and counted.hits, (seen, counted.as_dict())


@pytest.mark.parametrize("name", WARNING)
def test_caller_that_makes_errors_of_them(name):
    call = WARNING[name]
    compiled = framejit.to_static(lambda x: call(x.sin()).cos())
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning):
                compiled(x34())


def test_one_that_is_shown_once_ends_no_graph():
    compiled = framejit.to_static(lambda x: F.softmax(x.sin()).cos())
    with warnings.catch_warnings(), counts.counting() as counted:
        warnings.simplefilter("ignore")
        compiled(x34())
    assert counted.graphs == 1 and counted.breaks == 0
