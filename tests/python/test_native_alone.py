"""Back end native: operators that stand alone between others, where a kernel is faster, and softmax with rows of any length."""

import pytest
import torch
import torch.nn.functional as F

import framejit
from support.native import needs_kernels
from test_native import check

pytestmark = needs_kernels

NAN, INF = float("nan"), float("inf")
ALONE = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "exp_": lambda x: x.clone().exp_(),
}
LEFT = {
    "relu": torch.relu,
    "neg": torch.neg,
    "gelu": F.gelu,  # oneDNN's
    "exp of few": lambda x: x.flatten()[:1000].exp(),
    "layer norm of few": lambda x: F.layer_norm(x.nan_to_num()[:2], (40,)),
}


def numbers():
    x = torch.linspace(-20, 20, 1200).view(30, 40)
    x[0, :6] = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-40])
    return x


@pytest.mark.parametrize("name", ALONE)
def test_functions(name):
    check(ALONE[name], numbers())
    check(lambda x: ALONE[name](x.t()), numbers())


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_libtorchs(name):
    if name == "gelu" and not torch.backends.mkldnn.is_available():
        pytest.skip("LibTorch without oneDNN")
    check(LEFT[name], numbers(), kernels=0)


def test_functions_of_doubles_stay_libtorchs():
    check(torch.exp, numbers().double(), kernels=0)


@pytest.mark.parametrize("shape", [(200, 8), (40, 768), (2, 30, 33)], ids=str)
def test_layer_norm(shape):
    check(lambda x: F.layer_norm(x, x.shape[-1:]), (torch.arange(torch.Size(shape).numel()) * 0.7).sin().view(shape))


LENGTHS = [1, 5, 15, 128, 129, 200, 511, 512, 1000, 4095, 4096, 4097, 5000]


def rows(length):
    """Rows that hold NaN, infinities, nothing else than -inf, and numbers far apart."""
    count = max(7, 1100 // length)
    x = torch.linspace(-4, 4, count * length).view(count, length).sin() * 30
    x[1, length // 2] = NAN
    x[2, 0] = INF
    x[3, length - 1] = -INF
    x[4] = -INF
    x[5] = 1e30
    return x


@pytest.mark.parametrize("length", LENGTHS)
def test_softmax(length):
    check(lambda x: F.softmax(x, -1) * 2, rows(length), kernels=1 if length > 1 else 0)
    check(lambda x: F.softmax(x, -1), rows(length), kernels=1 if length > 1 else 0)


@pytest.mark.parametrize("length", [512, 4096, 4097])
def test_log_softmax(length):
    check(lambda x: F.log_softmax(x, -1), rows(length))


@pytest.mark.parametrize("length", [16, 33, 63, 127])
def test_softmax_of_rows_of_few_vectors_stays_libtorchs(length):
    check(lambda x: F.softmax(x, -1) * 2, rows(length), kernels=0)
    check(lambda x: F.log_softmax(x, -1) * 2, rows(length), kernels=0)


@pytest.mark.skipif(not hasattr(torch, "_safe_softmax"), reason="new in torch 2.5")
@pytest.mark.parametrize("length", [2, 16, 40, 64, 4097])
def test_softmax_of_rows_that_are_masked(length):
    check(lambda x: torch._safe_softmax(x, -1), rows(length))
    check(lambda x: torch._safe_softmax(x.abs() - INF, -1), torch.ones(max(3, 1100 // length), length))
    check(lambda x: torch._safe_softmax(x, 0), rows(length), kernels=0)
    check(lambda x: torch._safe_softmax(x, -1, dtype=torch.float64), rows(length), kernels=0)
    check(lambda x: torch._safe_softmax(x.t(), -1), rows(length), kernels=0)


@pytest.mark.skipif(not hasattr(torch, "_safe_softmax"), reason="new in torch 2.5")
def test_gradient_of_a_masked_softmax():
    def program(x):
        return (torch._safe_softmax(x * 2, -1) * torch.arange(64.0)).sum()

    framejit.reset()
    compiled = framejit.to_static(program, backend="native")
    grads = []
    for run in (program, compiled, compiled):
        x = torch.linspace(-4, 4, 50 * 64).view(50, 64)
        x[2] = -INF
        x.requires_grad_()
        run(x).backward()
        grads.append(x.grad)
    for grad in grads[1:]:
        torch.testing.assert_close(grad, grads[0], equal_nan=True, rtol=2e-5, atol=2e-5)
    assert framejit.stats()["hits"] > 0
