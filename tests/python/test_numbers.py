"""Python numbers beside tensors: converted once, when a graph is compiled, to what the operator would make of them."""

import functools
import math

import pytest
import torch

import framejit


def outcome(function, *args):
    try:
        return function(*args)
    except (RuntimeError, ValueError, OverflowError) as error:
        return error


NUMBERS = [1, 0.1, 1e300, -1e-310, 2**53 + 1, -(2**62), 0.0, -0.0, math.inf, math.nan, True]
WITH_NUMBERS = {
    "add": lambda x, n: x + n,
    "add times": lambda x, n: torch.add(x, n, alpha=3),
    "subtract from": lambda x, n: n - x,
    "multiply": lambda x, n: x * n,
    "divide": lambda x, n: x / n,
    "divide a number": lambda x, n: n / x,
    "floor": lambda x, n: x // n,
    "remainder": lambda x, n: x % n,
    "power": lambda x, n: x**n,
    "of a number": lambda x, n: n**x,
    "less": lambda x, n: x < n,
    "equal": lambda x, n: x == n,
    "where": lambda x, n: torch.where(x > 0, x, n),
    "in place": lambda x, n: x.clone().mul_(n).add_(n).div_(n),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_are_converted_as_in_eager(name, dtype):
    """To the bit, and the type of the result is eager's."""
    made = [0.1, -3.0, 0.0, 7.5, -0.0, math.inf, math.nan] if dtype.is_floating_point else [1, -3, 5, 2**20]
    values = torch.tensor(made, dtype=dtype)
    for rank in (values, values[0]):  # a tensor of rank 0 does not decide the type beside others, but beside a number
        for number in NUMBERS:
            function = functools.partial(WITH_NUMBERS[name], n=number)
            compiled = framejit.to_static(lambda x: function(x))
            expected, found = outcome(function, rank), outcome(compiled, rank)
            assert type(found) is type(expected)
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
                assert torch.equal(torch.signbit(found), torch.signbit(expected))


def test_gradient_beside_a_number_has_eagers_type():
    x = torch.tensor([0.5, -2.0], requires_grad=True)
    compiled = framejit.to_static(lambda x: (x * 3 + 0.1) / 7)
    (found,) = torch.autograd.grad(compiled(x).sum(), x)
    (expected,) = torch.autograd.grad(((x * 3 + 0.1) / 7).sum(), x)
    assert found.dtype == expected.dtype and torch.equal(found, expected)
