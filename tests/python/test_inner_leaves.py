"""Tensors made inside that collect gradients of their own: the graph ends before such a leaf, and goes on behind it."""

import contextlib

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager, at_least

WEIGHT = torch.linspace(-1, 1, 4).requires_grad_()

MADE = {
    "zeros": lambda x: torch.zeros(4, requires_grad=True),
    "full": lambda x: torch.full((4,), 0.5, requires_grad=True),
    "randn": lambda x: torch.randn(4, requires_grad=True),
    "arange": lambda x: torch.arange(4, dtype=torch.float32, requires_grad=True),
    "tensor": lambda x: torch.tensor([0.5, 1.5, 2.5, 3.5], requires_grad=True),
    "ones_like": lambda x: torch.ones_like(x, requires_grad=True),
    "new_full": lambda x: x.new_full((4,), 0.25, requires_grad=True),
    "requires_grad_": lambda x: x.detach().clone().requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(torch.ones(4)),
}


def x4():
    return torch.tensor([0.5, -1.0, 2.0, 0.25])


def gradients(result):
    """What the program does with a result that has a history."""
    total, *leaves = result
    total.sum().backward()
    return [leaf.grad for leaf in leaves], WEIGHT.grad


@pytest.mark.parametrize("made", MADE)
def test_result_that_depends_on_a_leaf(made):
    make = MADE[made]

    def f(x):
        y = (x * WEIGHT).sin()
        leaf = make(x)
        return (y * leaf).cos(), leaf

    assert_same_as_eager(f, x4(), graphs=2, breaks=1, after=gradients, cold_runs=2)


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("made", MADE)
def test_leaf_that_is_all_of_the_result(made, recording):
    def use(leaf):
        with torch.enable_grad():
            (leaf * WEIGHT).sum().backward()
        return leaf.is_leaf, leaf.grad_fn, leaf.grad

    with torch.set_grad_enabled(recording):
        assert_same_as_eager(MADE[made], x4(), graphs=None, breaks=1, after=use)


def test_leaf_that_is_all_of_the_result_beside_inputs_with_gradients():
    def f(x, y):
        return torch.ones(4, requires_grad=True), x.detach() + y.detach()

    x, y = x4().requires_grad_(), x4().requires_grad_()
    assert_same_as_eager(f, x, y, graphs=1, breaks=1, after=lambda result: (result[0] * 2).sum().backward())


def test_leaf_that_no_result_holds():
    def f(x):
        y = (x * WEIGHT).sin()
        return (y * torch.ones(4, requires_grad=True)).cos()

    assert_same_as_eager(f, x4(), graphs=2, breaks=1, after=lambda result: result.sum().backward())


def test_leaf_that_is_written_before_it_is_used():
    def f(x):
        y = x.exp()
        leaf = torch.zeros(4, requires_grad=True)
        with torch.no_grad():
            leaf.add_(y).mul_(2)
        return (y * leaf).cos(), leaf

    assert_same_as_eager(f, x4(), graphs=2, breaks=1, after=gradients)


def test_two_leaves():
    def f(x):
        a = torch.zeros(4, requires_grad=True)
        y = (x + a).sin()
        b = torch.ones(4, requires_grad=True)
        return (y * b).cos(), a, b

    assert_same_as_eager(f, x4(), graphs=2, breaks=2, after=gradients, cold_runs=2)


def test_step_along_the_gradient_of_a_leaf():
    def f(x):
        change = torch.zeros_like(x, requires_grad=True)
        ((x + change) * WEIGHT.detach()).sin().sum().backward()
        return (x + 0.1 * change.grad.sign()).detach()

    assert_same_as_eager(f, x4(), graphs=1, breaks=1)


def test_penalty_on_the_gradient_of_a_leaf():
    def f(x):
        between = (0.5 * x + 0.1).detach().requires_grad_()
        (slope,) = torch.autograd.grad((between * WEIGHT).sin().sum(), between, create_graph=True)
        return (slope.norm(2) - 1) ** 2, between

    assert_same_as_eager(f, x4(), graphs=at_least(2), breaks=1, after=gradients)


def test_leaf_in_a_callee_a_loop_and_a_context():
    def leaf_of(y, value):
        with contextlib.nullcontext():
            leaf = torch.full((4,), value, requires_grad=True)
            return y.sin() * leaf

    def f(x):
        total = x * WEIGHT
        for value in (0.5, 1.5):
            total = total + leaf_of(total, value)
        return (total.cos(),)

    assert_same_as_eager(f, x4(), graphs=at_least(3), breaks=at_least(2), after=gradients, cold_runs=2)


def test_where_no_gradients_are_recorded_a_leaf_ends_nothing():
    def f(x):
        return (x * torch.full((4,), 2.0, requires_grad=True)).cos()

    with torch.no_grad():
        assert_same_as_eager(f, x4(), graphs=1, breaks=0, miss=None)


def test_full_graph_names_the_line_of_the_leaf():
    def f(x):
        y = x.sin()
        leaf = torch.ones(4, requires_grad=True)
        return y * leaf

    line = f.__code__.co_firstlineno + 2
    with pytest.raises(framejit.GraphBreakError, match=rf"test_inner_leaves.py:{line}.* requires grad"):
        framejit.to_static(f, full_graph=True)(x4())


def test_report_names_the_line_of_the_leaf():
    def f(x):
        y = x.sin()
        leaf = torch.ones(4, requires_grad=True)
        return y * leaf

    with counting() as counted:
        framejit.to_static(f)(x4())
    assert counted.break_reasons == {"UnsupportedTensor": 1} and counted.graphs == 2
