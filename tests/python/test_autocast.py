"""Autocast around and inside of captured functions: types, gradients and the cache are eager's."""

import contextlib

import pytest
import torch
from torch import nn

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

WEIGHT = torch.linspace(-1, 1, 12).reshape(4, 3)
TYPES = [torch.bfloat16, torch.float16]


def x23():
    return torch.arange(6.0).reshape(2, 3)


def product(x):
    return x @ WEIGHT.t() + 1


@pytest.mark.parametrize("dtype", TYPES)
def test_entered_outside(dtype):
    compiled = framejit.to_static(product)
    for on in (True, False, True, False):
        with torch.autocast("cpu", dtype, enabled=on), counts.expect_counts(breaks=0, fallbacks=0):
            got, expected = compiled(x23()), product(x23())
        assert got.dtype is expected.dtype and torch.equal(got, expected)
    assert len(compiled.graphs) == 2


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_entered_inside(dtype, cache):
    def f(x):
        a = product(x)
        with torch.autocast("cpu", dtype, cache_enabled=cache):
            b = product(x), product(x), torch.softmax(product(x), 0), torch.is_autocast_cache_enabled()
        return a, b, product(x), torch.is_autocast_cache_enabled()

    assert_same_as_eager(f, x23())


def test_nested():
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            a = product(x)
            with torch.autocast("cpu", enabled=False):
                b = product(x)
                with torch.autocast("cpu", torch.float16):
                    c = product(x)
            d = product(x)
        return a, b, c, d, product(x)

    assert_same_as_eager(f, x23())


def test_as_a_decorator():
    low = torch.autocast("cpu", torch.bfloat16)(product)
    assert_same_as_eager(lambda x: (low(x), product(x)), x23())


def test_a_break_inside():
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            a = product(x)
            framejit.graph_break()
            b = product(x)
        return a, b, product(x)

    assert_same_as_eager(f, x23(), graphs=counts.at_least(1), breaks=counts.at_least(1), cold_runs=2)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_in_a_module(dtype, inside):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))

    def f(x):
        with torch.autocast("cpu", dtype, enabled=inside):
            return net(x).float().sum()

    def gradients(run):
        net.zero_grad()
        x = x23().requires_grad_()
        with torch.autocast("cpu", dtype, enabled=not inside):
            loss = run(x)
        loss.backward()
        return [loss.detach(), x.grad, *(p.grad.clone() for p in net.parameters())]

    expected = gradients(f)
    compiled = framejit.to_static(f)
    for _ in range(3):
        for mine, theirs in zip(gradients(compiled), expected):
            assert mine.dtype is theirs.dtype and torch.equal(mine, theirs)
    assert len(compiled.graphs) == 1


def test_an_exception_inside():
    def f(x):
        try:
            with torch.autocast("cpu", torch.bfloat16):
                a = product(x)
                raise ValueError
        except ValueError:
            return a, product(x)

    assert_same_as_eager(f, x23())


def test_a_weight_that_two_calls_share():
    def gradient(fn):
        torch.manual_seed(2)
        weight = torch.randn(8, 8, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            result = fn(fn(torch.randn(8, 8), weight), weight)
        result.float().pow(2).sum().backward()
        return weight.grad

    def fn(x, weight):
        return torch.tanh(x @ weight)

    assert torch.equal(gradient(framejit.to_static(fn)), gradient(fn))


# ---- a backward under autocast, whose formulas call operators that are cast for ----


def low():
    return torch.autocast("cpu", torch.bfloat16)


def off():
    return torch.autocast("cpu", enabled=False)


def scores(x, w):
    y = (x @ w).tanh()
    return (y.pow(3) @ w.t()).softmax(-1) * x.exp()


GRADIENTS = {  # the first as the recorded backward expects, the others laid out in other ways
    "contiguous": lambda: torch.linspace(-1, 1, 12).view(3, 4),
    "transposed": lambda: torch.linspace(-1, 1, 12).view(4, 3).t(),
    "expanded": lambda: torch.linspace(-1, 1, 4).expand(3, 4),
}


def gradients(fn, around, within, gradient):
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    w = torch.linspace(-1, 2, 16).view(4, 4).requires_grad_()
    with around():
        result = fn(x, w)
        with within():
            result.backward(gradient().to(result.dtype))
    return result.detach(), x.grad, w.grad


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("states", [(low, low), (off, low), (low, off), (off, low, off), (low, off, low)], ids=len)
def test_backward_under_another_state(states, gradient):
    """The states of the backward, one after the other, under the first one of the forward."""
    compiled = framejit.to_static(scores)
    for within in states * 2:
        expected = gradients(scores, states[0], within, GRADIENTS[gradient])
        got = gradients(compiled, states[0], within, GRADIENTS[gradient])
        for one, other in zip(expected, got):
            assert one.dtype is other.dtype and torch.equal(one, other)
    assert compiled.cache_info().hits == 2 * len(states) - 1


@pytest.fixture
def settings():
    """What autocast is set to, which is put back."""

    def asked():
        return [torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()]

    def put_back():
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.set_autocast_cache_enabled(True)

    put_back()
    yield asked, put_back
    put_back()


def left_on(x):
    torch.set_autocast_enabled("cpu", True)
    return x @ x.t()


def left_with_another_type(x):
    torch.set_autocast_dtype("cpu", torch.float16)
    with torch.autocast("cpu", dtype=torch.float16):
        return x @ x.t()


def left_without_a_cache(x):
    torch.set_autocast_cache_enabled(False)
    with torch.autocast("cpu"):
        return x @ x.t()


def left_behind_a_region(x):
    with torch.autocast("cpu"):
        y = x @ x.t()
    torch.set_autocast_enabled("cpu", True)
    return y, x @ x.t()


def put_back_inside(x):
    torch.set_autocast_enabled("cpu", True)
    y = x @ x.t()
    torch.set_autocast_enabled("cpu", False)
    return y, x @ x.t()


@pytest.mark.runs_once("autocast is left as it was not")
@pytest.mark.parametrize(
    "leaves", [left_on, left_with_another_type, left_without_a_cache, left_behind_a_region, put_back_inside], ids=lambda fn: fn.__name__
)  # fmt: skip
def test_what_is_left_of_it(leaves, settings):
    """A function may leave autocast otherwise than it found it."""
    asked, put_back = settings
    x = torch.arange(6.0).reshape(2, 3)
    expected, left = leaves(x), asked()
    compiled = framejit.to_static(leaves)
    for _ in range(3):
        put_back()
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
        assert asked() == left
    assert framejit.stats()["graphs"] >= 1


def test_type_and_cache_are_guarded_while_it_is_off(settings):
    """A region that names no type takes what is set before."""

    @framejit.to_static
    def step(x):
        with torch.autocast("cpu"):
            y = x @ x.t()
        return y, torch.is_autocast_cache_enabled()

    x = torch.arange(6.0).reshape(2, 3)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        for cache in (True, False, True):
            torch.set_autocast_dtype("cpu", dtype)
            torch.set_autocast_cache_enabled(cache)
            y, told = step(x)
            assert (y.dtype, told) == (dtype, cache)
    assert framejit.stats()["captures"] == 4


@framejit.not_to_static
def product_run_eagerly(x, weight):
    return x @ weight


def test_a_region_that_was_left_takes_its_casts_along():
    """The cache is emptied though the next region, in which the graph ends as well, is as the first."""

    def f(x, weight):
        with torch.autocast("cpu"):
            a = product_run_eagerly(x, weight)
            b = a + 1
        with torch.no_grad():
            weight.mul_(2)
        with torch.autocast("cpu"):
            b = b + 1
            c = product_run_eagerly(x, weight)
        return a, b, c

    def run(fn):
        return fn(x23(), torch.ones(3, 2, requires_grad=True))

    expected, compiled = run(f), framejit.to_static(f)
    for _ in range(3):
        torch.testing.assert_close(run(compiled), expected, rtol=0, atol=0)
    assert framejit.stats()["graphs"] >= 1


def test_a_region_that_ends_at_another_depth():
    """What goes on behind the eager call ends the outermost region in one call, and an inner one in another."""

    def f(x, weight):
        with torch.autocast("cpu"):
            a = product_run_eagerly(x, weight) + 1
        return a + 1

    def run(fn):
        x, weight, results = x23(), torch.ones(3, 2, requires_grad=True), []
        for around in (off, low, contextlib.nullcontext, off, contextlib.nullcontext):
            with around():
                results.append(fn(x, weight))
            with torch.no_grad():
                weight.mul_(2)
        return results

    expected, compiled = run(f), framejit.to_static(f)
    for _ in range(3):
        torch.testing.assert_close(run(compiled), expected, rtol=0, atol=0)
    assert framejit.stats()["graphs"] >= 2
