"""Generated programs do as eager does. FRAMEJIT_GENERATED_PROGRAMS sets how many; a failing seed reproduces its program."""

import os
import zlib

import pytest
import torch

import framejit
from support.generator import program
from support.same_as_eager import assert_same_as_eager
from support.source import define_function

COUNT = int(os.environ.get("FRAMEJIT_GENERATED_PROGRAMS", "120"))


def arguments(n):
    return torch.tensor([0.3, -1.2, 2.5, 0.7]), torch.tensor([1.0, 0.5, -0.5, -2.0]), n, [torch.ones(4), 5]


@pytest.mark.parametrize("seed", range(COUNT))
def test_program(seed):
    source = program(seed)
    fn = define_function(source, torch=torch, framejit=framejit, zlib=zlib, LOG=[])
    for n in (3, 4):
        raises = None
        try:
            fn(*arguments(n))
        except Exception as error:
            raises = type(error)
        fn.__globals__["LOG"].clear()
        try:
            assert_same_as_eager(fn, *arguments(n), raises=raises, graphs=None, breaks=None, cold_runs=2 if raises else 1)
        except AssertionError as error:
            raise AssertionError(f"program {seed}, n = {n}:\n{source}\n{error}") from error
