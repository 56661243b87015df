"""Back end native: batch norm with given statistics and softmax are parts of kernels."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from support.native import kernels_asked_for, needs_kernels

pytestmark = needs_kernels


def norm(channels, dtype=torch.float32, **options):
    torch.manual_seed(0)
    made = (nn.BatchNorm2d if options.pop("images", True) else nn.BatchNorm1d)(channels, **options).to(dtype)
    for parameter in made.parameters():
        nn.init.uniform_(parameter, 0.5, 2)
    made.running_mean.uniform_(-1, 1)
    made.running_var.uniform_(0.25, 2)
    return made


def check(model, x, kernels):
    before = kernels_asked_for()

    def f(x):
        return torch.relu(model(x)) + x

    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        with torch.no_grad():
            expected, found = f(x), compiled(x)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)
    assert kernels_asked_for() - before == kernels
    assert framejit.stats()["hits"] == 1


IMAGES = torch.arange(2 * 5 * 3 * 4, dtype=torch.float32).view(2, 5, 3, 4).sin()


@pytest.mark.parametrize("x", [IMAGES, IMAGES.to(memory_format=torch.channels_last), IMAGES[:1], IMAGES[:, :, :1, :1]])
@pytest.mark.parametrize("affine", [True, False])
def test_images(x, affine):
    check(norm(5, affine=affine).eval(), x.clone(), 1)


@pytest.mark.parametrize("x", [IMAGES[0, :, :, 0].t(), IMAGES[..., 0]])
def test_lines_and_rows(x):
    check(norm(5, images=False).eval(), x.contiguous(), 1)


def test_f64_and_more_channels_than_a_vector_is_wide():
    check(norm(37, torch.float64).eval(), torch.randn(2, 37, 5, 5, dtype=torch.float64), 1)


def test_statistics_of_the_batch_are_left_to_the_operator():
    model, x = norm(5).train(), IMAGES
    other = copy.deepcopy(model)
    compiled = framejit.to_static(lambda x: torch.sigmoid(torch.relu(model(x)) + 1), backend="native")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), torch.sigmoid(torch.relu(other(x)) + 1))
        torch.testing.assert_close(model.running_mean, other.running_mean)


def test_gradients_with_given_statistics():
    model = norm(5).eval()
    gradients = []
    for fn in (model, framejit.to_static(model, backend="native")):
        model.zero_grad()
        x = IMAGES.clone().requires_grad_()
        torch.sigmoid(torch.relu(fn(x)) * 2).sum().backward()
        gradients.append([x.grad, model.weight.grad, model.bias.grad])
    for one, other in zip(*gradients):
        torch.testing.assert_close(other, one)


def test_a_vector_that_the_program_makes_is_left_to_the_operator():
    model = norm(5, images=False).eval()

    def f(x, v):
        variance = v * v + 1
        y = functional.batch_norm(x, model.running_mean, variance, eps=1e-5)
        return torch.relu(y) * v, variance

    x, v = IMAGES[0, :, :, 0].t()[:1].contiguous(), torch.arange(5.0)
    compiled = framejit.to_static(f, backend="native")
    for one, other in zip(f(x, v), compiled(x, v)):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("lay", [
    lambda x: x.transpose(2, 3), lambda x: x[:, :, ::2], lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    lambda x: x.to(memory_format=torch.channels_last)[:, :, ::2], lambda x: x[:, :, 0, 0], lambda x: x[:, :1].expand(x.shape),
], ids=["transposed", "slices", "swapped", "channels last", "columns", "expanded"])  # fmt: skip
def test_results_of_inputs_that_are_not_dense_lie_as_in_eager(lay, training):
    """Whoever reads them has to know: what follows is a kernel."""
    x = lay(IMAGES.float())
    model, other = (norm(5, images=x.dim() == 4).train(training) for _ in range(2))

    def around(model, x):
        y = model(x)
        return torch.relu(y * 2 + 1) * 0.5, y

    compiled = framejit.to_static(lambda x: around(model, x), backend="native")
    before = kernels_asked_for()
    for _ in range(2):
        results = [fn(x.detach().requires_grad_()) for fn in (compiled, lambda x: around(other, x))]
        for found, expected in zip(*results):
            assert found.stride() == expected.stride()
            torch.testing.assert_close(found, expected)
    assert kernels_asked_for() > before


# Softmax


@pytest.mark.parametrize("softmax", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_rows_with_its_gradient(softmax, dtype):
    mask = torch.zeros(7, dtype=dtype)
    mask[5:] = -float("inf")

    def f(x):
        return softmax(x * 0.5 + mask, -1) * 2

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        results = []
        for fn in (f, compiled):
            x = torch.arange(21, dtype=dtype).view(3, 7).sin().mul(50).requires_grad_()
            y = fn(x)
            y[:, :5].square().sum().backward()
            results.append((y.detach(), x.grad))
        for one, other in zip(*results):
            torch.testing.assert_close(other, one)
    assert kernels_asked_for() - before == 2  # forward and backward
    assert framejit.stats()["hits"] == 1


def test_rows_of_nothing_but_infinities_are_nan():
    compiled = framejit.to_static(lambda x: torch.softmax(x + 1, 1), backend="native")
    x = torch.full((2, 3), -float("inf"))
    x[1, 1] = 0
    torch.testing.assert_close(compiled(x), torch.softmax(x + 1, 1), equal_nan=True)


def test_softmax_of_another_dimension_or_type_is_left_to_the_operator():
    before = kernels_asked_for()
    for x, dim in ((torch.randn(3, 4), 0), (torch.randn(3, 4).bfloat16(), 1), (torch.randn(3, 1), 1)):
        compiled = framejit.to_static(lambda x, dim: torch.softmax(torch.mm(x, x.t()), dim), backend="native")
        torch.testing.assert_close(compiled(x, dim), torch.softmax(torch.mm(x, x.t()), dim))
    assert kernels_asked_for() == before
