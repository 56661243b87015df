"""Second derivatives go on through the results that lie in a graph's history, as eager's do: a gradient may be asked for
there, hooks see it, and what is computed from a gradient and a result is differentiated through both."""

import pytest
import torch

import framejit
from support.autograd_functions import Cube

BACKENDS = pytest.mark.parametrize("backend", ["aten", "native"])


def follow(inner, b):
    return (inner * inner.cos() + inner * b).exp().sum()


def plain(a, b):
    inner = (a * 2).sin()
    return inner, follow(inner, b)


def view_of_a_result(a, b):
    inner = (a * 2).sin().reshape(3, 1)
    return inner, follow(inner.squeeze(1), b)


def result_and_view(a, b):
    inner = (a * 2).sin()
    view = inner.reshape(3, 1)
    return view, follow(inner, b) + (view * view).sum(), inner


def view_of_an_input(a, b):
    inner = a[1:]
    return inner, follow(inner, b[1:])


def written_in_place(a, b):
    inner = (a * 2).sin()
    view = inner.view(3, 1)
    inner.mul_(b)
    return inner, follow(view.squeeze(1), b)


def read_before_it_is_written(a, b):
    inner = (a * 2).sin()
    before = inner + b
    inner.mul_(b)
    return inner, follow(inner, before)


def written_through_a_view(a, b):
    inner = (a * 2).sin()
    before = inner + b
    inner[1:].mul_(b[1:])
    return inner, follow(inner, before)


def one_of_several(a, b):
    values, indices = torch.stack([a * 2, b.sin(), a * b]).sort(0)
    return values, follow(values[0], b) + (values[1] * b).sum(), indices


def part_of_a_split(a, b):
    first, second = (a * 2).sin().split([1, 2])
    return first, follow(second, b[1:]) * (first * first).sum()


def beside_what_is_hidden(a, b):
    hidden = (a * b).tanh()
    inner = (hidden * 2).sin() * a
    return inner, follow(inner * hidden, b)


def given_by_a_function(a, b):
    inner = Cube.apply(a * 2)
    return inner, follow(inner, b)


def below_a_function(a, b):
    inner = (a * 2).sin()
    return inner, follow(Cube.apply(inner), b)


def one_above_another(a, b):
    lower = (a * 2).sin()
    inner = (lower * b).tanh() + lower
    return inner, follow(inner * lower, b), lower


FUNCTIONS = [
    plain,
    view_of_a_result,
    result_and_view,
    view_of_an_input,
    written_in_place,
    read_before_it_is_written,
    written_through_a_view,
    one_of_several,
    part_of_a_split,
    beside_what_is_hidden,
    given_by_a_function,
    below_a_function,
    one_above_another,
]


def leaves():
    torch.manual_seed(4)
    return torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)


def assert_alike(function, observe, backend):
    compiled = framejit.to_static(function, backend=backend)
    for _ in range(2):
        expected, got = observe(function), observe(compiled)
        torch.testing.assert_close(got, expected)
    assert compiled.cache_info().hits
    assert len(compiled.graphs) == 1


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradient_of_a_gradient(function, backend):
    def observe(function):
        a, b = leaves()
        inner, outer, *_ = function(a, b)
        first = torch.autograd.grad(outer, [inner, b], create_graph=True)
        second = torch.autograd.grad(sum(grad.sum() for grad in first), [inner, a, b])
        return [*first, *second]

    assert_alike(function, observe, backend)


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
def test_penalty_of_a_gradient_and_a_result(function, backend):
    def observe(function):
        a, b = leaves()
        inner, outer, *others = function(a, b)
        (first,) = torch.autograd.grad(outer, inner, create_graph=True)
        penalty = (first * first * inner).sum() + sum((other * 1.5).sum() for other in others)
        found = torch.autograd.grad(penalty, [inner, a, b], allow_unused=True)
        return [torch.zeros(1) if grad is None else grad for grad in found]

    assert_alike(function, observe, backend)


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
def test_hooks_and_kept_gradients(function, backend):
    def observe(function):
        a, b = leaves()
        inner, outer, *_ = function(a, b)
        seen = []
        inner.register_hook(lambda grad: seen.append(grad.detach().clone()) or grad * 2)
        inner.retain_grad()
        (first,) = torch.autograd.grad(outer, b, create_graph=True)
        (outer + (first * first).sum()).backward()
        return [*seen, inner.grad, a.grad, b.grad]

    assert_alike(function, observe, backend)


def saved_by_its_own_operation(a, b):
    return (a * b).tanh()


def saved_by_each_of_two(a, b):
    return (a * b).tanh(), (b * 2).exp().sigmoid()


@BACKENDS
@pytest.mark.parametrize("function", [saved_by_its_own_operation, saved_by_each_of_two])
def test_formulas_that_read_results(function, backend):
    def observe(function):
        a, b = leaves()
        results = function(a, b)
        results = results if isinstance(results, tuple) else (results,)
        seen = []
        for result in results:
            result.register_hook(lambda grad: seen.append(grad.detach().clone()) or grad * 2)
        loss = sum((result * result).sum() for result in results)
        first = torch.autograd.grad(loss, [a, b], create_graph=True)
        second = torch.autograd.grad(sum((grad * grad).sum() for grad in first), [a, b, *results])
        return [*first, *second, *seen]

    assert_alike(function, observe, backend)


@BACKENDS
@pytest.mark.parametrize("inner", [False, True])
def test_hooks_of_inputs_run_once(inner, backend):
    def observe(function):
        a, b = leaves()
        first_input = (a * 2).sin() if inner else a
        seen = []
        for tensor in (first_input, b):
            tensor.register_hook(lambda grad: seen.append(grad.detach().clone()) or grad * 2)
        loss = function(first_input, b).sum()
        first = torch.autograd.grad(loss, [first_input, a, b], create_graph=True)
        second = torch.autograd.grad(sum((grad * grad).sum() for grad in first), [first_input, a, b])
        return [*first, *second, *seen]

    assert_alike(saved_by_its_own_operation, observe, backend)


def test_history_is_as_it_was_afterwards():
    a, b = leaves()
    inner, outer = framejit.to_static(plain)(a, b)
    node, following = outer.grad_fn, outer.grad_fn.next_functions
    for _ in range(3):
        first = torch.autograd.grad(outer, [inner, b], create_graph=True)
        second = torch.autograd.grad(sum(grad.sum() for grad in first), [inner, a, b], retain_graph=True)
    assert outer.grad_fn is node and node.next_functions == following
    again = torch.autograd.grad(outer, [inner, b], create_graph=True)
    repeated = torch.autograd.grad(sum(grad.sum() for grad in again), [inner, a, b])
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(repeated, second))
