"""Back end native: reductions over other dimensions than the last, whose rows are nests of loops."""

import pytest
import torch

from support.native import needs_kernels
from test_native import check

pytestmark = needs_kernels

IMAGES = torch.arange(3 * 4 * 5 * 6, dtype=torch.float64).view(3, 4, 5, 6).sin()
DIMS = [(0, 2, 3), (2, 3), (1, 2, 3), (0, 3), (0, 1, 3), (1, 3), (-1, 0), (3, 2, 1, 0)]
REDUCTIONS = {
    "sum": lambda x, dims, keep: x.sum(dims, keepdim=keep),
    "mean": lambda x, dims, keep: x.mean(dims, keepdim=keep),
    "largest": lambda x, dims, keep: x.amax(dims, keepdim=keep),
    "several": lambda x, dims, keep: x.amax(dims, keepdim=keep) - x.sin().amin(dims, keepdim=keep),
}


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("which", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_reductions(dims, which, dtype):
    reduce = REDUCTIONS[which]
    x = IMAGES.to(dtype)
    check(lambda x: x * reduce(x * 2 + 1, dims, True), x)
    if which != "several":  # what has lost its dimensions is read by others alone
        check(lambda x: reduce(x * 2 + 1, dims, False), x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_integers_and_truths(dtype):
    x = (IMAGES * 100).to(torch.int32).to(dtype)
    check(lambda x: (x * x).sum((0, 2, 3)), x)
    check(lambda x: (x * x).amax((0, 2, 3), keepdim=True) * x, x)
    check(lambda x: (x > 20).sum((0, 2, 3), keepdim=True) + x, x)


def test_all_of_a_tensor():
    check(lambda x: (x * x).sum(), IMAGES)
    check(lambda x: (x * x).mean() , IMAGES[:1])
    check(lambda x: (x * x).amax(), IMAGES[:, :1])


@pytest.mark.parametrize("other", [(3, 1, 1, 1), (5, 1), (6,), (4, 1, 1), (4, 5, 1), (3, 1, 1, 6), ()], ids=str)
def test_operands_that_broadcast(other):
    """Along some of the row's loops: one number for each stretch, or more loops."""
    y = torch.arange(1.0, 1 + torch.Size(other).numel(), dtype=torch.float64).view(other)
    check(lambda x, y: (x * y + y).sum((0, 2, 3), keepdim=True) + x * y, IMAGES, y)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 32, 33, 70])
def test_stretches_of_any_length(count):
    x = torch.arange(3 * 2 * count, dtype=torch.float32).view(3, 2, count).cos()
    check(lambda x: x - (x * x).sum((0, 2), keepdim=True), x, kernels=1 if count > 1 else 0)


def test_rows_of_levels():
    def f(x):
        centred = x - x.mean((0, 2, 3), keepdim=True)
        return centred * torch.rsqrt(centred.square().mean((0, 2, 3), keepdim=True) + 1e-5)

    check(f, IMAGES.float())


def test_nan_and_infinities():
    x = IMAGES.float()
    x[1, 2, 3, 4], x[0, 0, 0, 0], x[2, 3, 4, 5] = float("nan"), float("inf"), -float("inf")
    check(lambda x: (x * 2).amax((0, 2, 3), keepdim=True) + (x * 2).sum((0, 2, 3), keepdim=True), x)


def test_two_kinds_of_rows_are_two_kernels():
    check(lambda x: (x - x.mean((2, 3), keepdim=True)) * (x + x.sum((0, 2, 3), keepdim=True)), IMAGES, kernels=2)


@pytest.mark.parametrize("dims", [0, (0, 1), (0, 1, 2)], ids=str)
def test_columns_are_left_to_the_operator(dims):
    check(lambda x: x * (x.sum(dims, keepdim=True)), IMAGES, kernels=0)
    check(lambda x: x * (x.sum((0, 2, 3), keepdim=True)), IMAGES.to(memory_format=torch.channels_last), kernels=0)


def test_long_rows_are_summed_in_a_tree():
    torch.manual_seed(0)
    x = torch.rand(64, 2, 1024)
    compiled = check(lambda x: (x * 0.5).sum((0, 2)), x)
    exact = (x.double() * 0.5).sum((0, 2))
    assert ((compiled(x) - exact) / exact).abs().max() < 1e-6
