"""Convolutions of each channel alone: the executor's, forward and backward, beside LibTorch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framejit

BACKENDS = ["aten", "native"]
CHANNELS = 24


def convolved():
    return framejit._C.kernel_stats()["convolved"]


def given(size=(2, CHANNELS, 19, 22), window=(3, 3), seed=0, dtype=torch.float32):
    """Images, windows and biases that want gradients."""
    torch.manual_seed(seed)
    made = torch.randn(size), torch.randn(size[1], 1, *window), torch.randn(size[1])
    return [each.to(dtype).requires_grad_() for each in made]


def depthwise(**options):
    return lambda x, w, b: F.conv2d(x, w, b, groups=x.shape[1], **options)


# Program, arguments, and whether planes are convolved one by one.
CASES = {
    "3 x 3": (depthwise(padding=1), {}, True),
    "5 x 5": (depthwise(padding=2), {"window": (5, 5)}, True),
    "7 x 7": (depthwise(padding=3), {"window": (7, 7)}, True),
    "3 x 5": (depthwise(), {"window": (3, 5)}, True),
    "1 x 1": (depthwise(), {"window": (1, 1)}, True),
    "every other place": (depthwise(stride=2, padding=1), {}, True),
    "every other column": (depthwise(stride=(1, 2), padding=(1, 2)), {"window": (3, 5)}, True),
    "every third place": (depthwise(stride=3), {"window": (2, 2)}, True),
    "taps apart": (depthwise(padding=4, dilation=2), {"window": (5, 5)}, True),
    "taps apart, every other place": (depthwise(stride=2, padding=2, dilation=3), {}, True),
    "more zeros than the window takes": (depthwise(padding=5), {}, True),
    "small planes": (depthwise(padding=2), {"size": (3, 40, 4, 5), "window": (5, 5)}, True),
    "large planes": (depthwise(stride=2, padding=1), {"size": (1, 8, 112, 112)}, True),
    "without a bias": (lambda x, w, b: F.conv2d(x, w, groups=CHANNELS) * b[:, None, None], {}, True),
    "gradient of one number": (lambda x, w, b: F.conv2d(x, w, b, groups=CHANNELS).mean((2, 3)), {}, True),
    "places far apart": (depthwise(stride=(1, 17)), {}, False),
    "f64": (depthwise(padding=1), {"dtype": torch.float64}, False),
    "two windows for each channel": (lambda x, w, b: F.conv2d(x[:, :12], w, b, groups=12), {}, False),
    "images channels last": (
        lambda x, w, b: F.conv2d(x.contiguous(memory_format=torch.channels_last), w, b, groups=CHANNELS),
        {},
        False,
    ),
    "windows apart": (lambda x, w, b: F.conv2d(x, w.repeat(1, 2, 1, 1)[:, ::2], b, groups=CHANNELS), {}, False),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, groups=CHANNELS), {}, False),
}


def outcome(function, arguments, seed=1):
    """What a program gives, and its gradients for a tangent of random numbers."""
    result = function(*arguments)
    tangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(seed), dtype=result.dtype)
    return [result.detach(), *torch.autograd.grad(result, arguments, tangent)]


def exact(function, arguments, of=lambda each: each):
    """As `outcome`, in f64, `of` the arguments and the tangent."""
    made = [of(each.detach().double()).requires_grad_() for each in arguments]
    result = function(*made)
    tangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(1), dtype=arguments[0].dtype)
    return [result.detach(), *torch.autograd.grad(result, made, of(tangent.double()))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name, backend):
    program, options, in_planes = CASES[name]
    arguments = given(**options)
    expected, numbers = outcome(program, arguments), exact(program, arguments)
    sums = exact(program, arguments, torch.abs)  # of what errors are small beside
    framejit.reset()
    compiled, before = framejit.to_static(program, backend=backend, full_graph=True), convolved()
    for _ in range(2):
        for mine, theirs, number, size in zip(outcome(compiled, arguments), expected, numbers, sums):
            # LibTorch's own sums of many numbers are not all within that.
            assert torch.equal(mine, theirs) or backend == "native"
            assert backend == "aten" or ((mine - number).abs() <= 16 * torch.finfo(torch.float32).eps * size).all()
            assert mine.dtype == theirs.dtype and mine.stride() == theirs.stride()
    assert (convolved() >= before + 4) == (in_planes and backend == "native")
    assert framejit.stats()["graphs"] == 1


@pytest.mark.parametrize("wanted", [[0], [1], [2], [0, 2], [1, 2]])
def test_some_of_the_gradients(wanted):
    program = depthwise(padding=1)
    arguments = [each.detach().requires_grad_(i in wanted) for i, each in enumerate(given())]
    asked = [arguments[i] for i in wanted]
    expected = torch.autograd.grad(program(*arguments).square().sum(), asked)
    framejit.reset()
    compiled, before = framejit.to_static(program, backend="native", full_graph=True), convolved()
    for _ in range(2):
        found = torch.autograd.grad(compiled(*arguments).square().sum(), asked)
        for mine, theirs in zip(found, expected):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)
    assert convolved() > before


SPECIAL = {
    "nan in the image": (0, (1, 3, 5, 6), float("nan")),
    "infinity in the image": (0, (1, 3, 0, 0), float("inf")),
    "nan in a window": (1, (4, 0, 1, 1), float("nan")),
    "infinity in a window": (1, (4, 0, 0, 2), float("-inf")),
    "infinity in a bias": (2, (4,), float("inf")),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_numbers_that_are_not_finite(name):
    """A zero beside the image meets no infinity."""
    which, where, number = SPECIAL[name]
    program, arguments = depthwise(padding=1), given()
    with torch.no_grad():
        arguments[which][where] = number
    expected = outcome(program, arguments)
    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    for _ in range(2):
        for mine, theirs in zip(outcome(compiled, arguments), expected):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3, equal_nan=True)
    assert framejit.stats()["graphs"] == 1


def test_a_gradient_that_is_not_finite():
    program, arguments = depthwise(padding=1), given()
    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    tangent = torch.ones(2, CHANNELS, 19, 22)
    tangent[0, 2, 0, 0] = float("inf")
    expected = torch.autograd.grad(program(*arguments), arguments, tangent)
    for _ in range(2):
        for mine, theirs in zip(torch.autograd.grad(compiled(*arguments), arguments, tangent), expected):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3, equal_nan=True)
    assert framejit.stats()["graphs"] == 1


def test_without_gradients():
    program, arguments = depthwise(padding=1), [each.detach() for each in given()]
    framejit.reset()
    compiled, before = framejit.to_static(program, backend="native", full_graph=True), convolved()
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*arguments), program(*arguments), rtol=1e-4, atol=1e-4)
    assert convolved() >= before + 2


def test_several_threads():
    program, arguments = depthwise(padding=2), given((2, 96, 28, 28), (5, 5))
    compiled, before = framejit.to_static(program, backend="native", full_graph=True), convolved()
    alone = outcome(compiled, arguments)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for mine, theirs in zip(outcome(compiled, arguments), alone):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
    finally:
        torch.set_num_threads(threads)
    assert convolved() >= before + 4


def test_a_model_is_trained():
    """Separable convolutions with norms between them."""

    def model():
        torch.manual_seed(0)
        layers = []
        for _ in range(2):
            layers += [nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
            layers += [nn.Conv2d(16, 16, 1)]
        return nn.Sequential(*layers)

    def trained(module, call):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        losses = []
        for seed in range(4):
            optimizer.zero_grad()
            loss = call(torch.randn(2, 16, 20, 20, generator=torch.Generator().manual_seed(seed))).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, list(module.parameters())

    mine, theirs = model(), model()
    framejit.reset()
    before = convolved()
    losses, parameters = trained(mine, framejit.to_static(mine, backend="native", full_graph=True))
    expected_losses, expected = trained(theirs, theirs)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-4, atol=1e-5)
    for found, wanted in zip(parameters, expected):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert convolved() >= before + 16 and framejit.stats()["graphs"] == 1
