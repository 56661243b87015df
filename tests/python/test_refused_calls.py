"""Calls that an operator refuses whatever its data: inference refuses them too, so no graph is made that can only fail."""

import pytest
import torch
import torch.nn.functional as F

from support.same_as_eager import assert_same_as_eager

MASK = torch.tensor([[True], [False]])
ROWS = torch.tensor([0, 1])

REFUSED = {
    "masked_fill with a complex number": lambda x: x.masked_fill(MASK, 1j),
    "masked_fill with a number too large": lambda x: x.half().masked_fill(MASK, -1e9),
    "masked_fill with a complex tensor": lambda x: x.masked_fill(MASK, torch.tensor(1j)),
    "masked_fill_ with infinity": lambda x: x.long().masked_fill_(MASK, float("inf")),
    "fill_ with a number too large": lambda x: x.fill_(1e300),
    "fill_ of halves with a number too large": lambda x: x.half().fill_(1e6),
    "fill_ with a complex number": lambda x: x.fill_(1j),
    "add_ with alpha too large": lambda x: x.add_(x, alpha=1e300),
    "add_ of halves with alpha too large": lambda x: x.half().add_(x.half(), alpha=1e6),
    "addcmul_ with a value too large": lambda x: x.addcmul_(x, x, value=1e300),
    "clamp_ with a bound too large": lambda x: x.clamp_(max=1e300),
    "lerp_ with a weight too large": lambda x: x.lerp_(x, 1e300),
    "leaky_relu_ with a slope too large": lambda x: F.leaky_relu_(x, 1e300),
    "index_add of another shape": lambda x: x.index_add(0, ROWS, torch.ones(2)),
    "index_add_ of another shape": lambda x: x.index_add_(0, ROWS, torch.ones(2, 1)),
    "kthvalue beyond the size": lambda x: x.kthvalue(3, 0),
    "huber_loss without delta": lambda x: F.huber_loss(x, x, delta=0.0),
    "softshrink below zero": lambda x: F.softshrink(x, -0.5),
    "gelu of another approximation": lambda x: F.gelu(x, approximate="tan"),
    "roll with a dimension missing": lambda x: x.roll((1, 2), 0),
    "convolution without dilation": lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 1, 1), dilation=0),
    "convolution of nothing": lambda x: F.conv2d(x[None, None][:0], torch.ones(1, 1, 1, 1), dilation=-1),
    "avg_pool2d by zero": lambda x: F.avg_pool2d(x[None], 2, divisor_override=0),
    "sub of True": lambda x: x - True,
    "sub_ of True": lambda x: x.sub_(True),
    "sub of a mask": lambda x: x - (x > 0),
    "rsub of True": lambda x: torch.rsub(x, True),
    "normal_": lambda x: x.normal_(0, -1),
    "normal_ of integers": lambda x: x.long().normal_(),
    "log_normal_": lambda x: x.log_normal_(0, 0),
    "uniform_": lambda x: x.uniform_(3, -1),
    "uniform_ of too wide a range": lambda x: x.uniform_(-3e38, 3e38),
    "cauchy_": lambda x: x.cauchy_(0, 0),
    "exponential_": lambda x: x.exponential_(0),
    "geometric_": lambda x: x.geometric_(1),
    "bernoulli_": lambda x: x.bernoulli_(2),
    "bernoulli": lambda x: torch.bernoulli(x, 2.0),
    "random_": lambda x: x.random_(3, 3),
    "random_ below zero": lambda x: x.random_(0),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_error_is_seen_at_capture(name):
    log = []

    def f(x):
        log.append("before")
        result = REFUSED[name](x * 2)
        log.append("after")
        return result

    x = torch.linspace(0, 1, 6).view(2, 3)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        f(x)
    compiled = assert_same_as_eager(f, x, raises=eager.type, graphs=None, breaks=None)
    operator = "aten." + name.split()[0]
    assert not [graph for graph in compiled.graphs if operator in str(graph)]


@pytest.mark.parametrize("name", [name for name in REFUSED if "too large" in name])
def test_number_that_does_not_fit_is_the_programs_to_handle(name):
    def f(x):
        y = x * 2
        try:
            return REFUSED[name](x)
        except RuntimeError:
            return y - 1

    assert_same_as_eager(f, torch.linspace(0, 1, 6).view(2, 3), graphs=None, breaks=None)
