"""What a backward compares is what the forward had, though kernels compute much of the forward again."""

import pytest
import torch

import framejit

SIDE = 301  # so that no tensor is too small to be computed again


def largest_of_columns(x):
    return x.sin().amax(0)


def smallest_and_largest(x):
    made = x.sin() * 2
    return made.amin(0) + made.amax(0)


def equal_halves(x):
    return torch.maximum(x.tanh(), x.tanh().clone())


def equal_to_the_largest(x):
    made = x.sin()
    return torch.where(made == made.amax(0, keepdim=True), made * 3, x)


def ordered(x):
    made = x.sin()
    mirrored = made.flip(0)  # the middle row is itself
    return torch.nn.functional.gelu(torch.where(mirrored > made, mirrored, made * 2)).add(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "function", [largest_of_columns, smallest_and_largest, equal_halves, equal_to_the_largest, ordered]
)
def test_gradients_are_eagers(function, dtype):
    torch.manual_seed(1)
    values = torch.randn(SIDE, SIDE, dtype=dtype)
    compiled = framejit.to_static(function, backend="native")
    for _ in range(2):
        gradients = []
        for run in (function, compiled):
            x = values.clone().requires_grad_()
            run(x).sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[1], gradients[0])
    assert len(compiled.graphs) == 1
