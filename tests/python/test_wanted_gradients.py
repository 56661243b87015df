"""A backward that names what it wants gradients for computes those alone, and frees what they take, as eager's does."""

import pytest
import torch
from torch import nn

import framejit
from support.gradients import assert_same, facts

BACKENDS = pytest.mark.parametrize("backend", ["aten", "native"])


def made(backend=None):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    loss = lambda x: net(x).exp().sum()  # noqa: E731
    return net, framejit.to_static(loss, backend=backend) if backend else loss


def calls_of(name, run):
    with torch.autograd.profiler.profile() as profile:
        run()
    return sum(event.count for event in profile.key_averages() if event.key == name)


@BACKENDS
def test_matrix_products_of_weights_are_left_out(backend):
    def products(backend):
        net, loss = made(backend)
        x = torch.ones(2, 6, requires_grad=True)
        found = []
        torch.autograd.grad(loss(x), x)  # records it
        result = loss(x)
        counted = calls_of("aten::mm", lambda: found.append(torch.autograd.grad(result, x)[0]))
        return counted, found[0]

    (expected, theirs), (counted, mine) = products(None), products(backend)
    assert counted == expected == 3
    torch.testing.assert_close(mine, theirs)


@BACKENDS
@pytest.mark.parametrize("wanted", [(0,), (0, 1), (2,), (4, 5, 6), (7, 1)], ids=str)
def test_any_part(wanted, backend):
    def gradients(backend):
        net, loss = made(backend)
        parameters = list(net.parameters())
        seen = []
        for _ in range(2):
            result = loss(torch.ones(2, 6))
            seen += torch.autograd.grad(result, [parameters[i] for i in wanted], retain_graph=True)
            result.backward(inputs=[parameters[i] for i in wanted], retain_graph=True)
            result.backward()
        return [*seen, *(parameter.grad for parameter in parameters)]

    expected, got = gradients(None), gradients(backend)
    if backend == "aten":
        assert_same(expected, got)
    torch.testing.assert_close(got, expected)


def two_parts(x, a, b):
    return (x * a).sum() + (x * b).exp().sum()


@BACKENDS
@pytest.mark.parametrize("order", ["ab", "ba", "aba", "aa", "bb", "ab+", "+a", "a+"])
def test_what_was_left_out_can_be_had_later(order, backend):
    """`+`: of both at once."""

    def outcomes(function):
        torch.manual_seed(3)
        leaves = dict(zip("ab", torch.randn(2, 3).unbind()))
        for leaf in leaves.values():
            leaf.requires_grad_()
        x = torch.ones(3)
        loss = function(x, leaves["a"], leaves["b"])
        seen = []
        for name in order:
            try:
                grads = torch.autograd.grad(loss, list(leaves.values()) if name == "+" else [leaves[name]])
                seen.append([facts(grad) for grad in grads])
            except RuntimeError as error:
                seen.append(str(error)[:40])
        return seen

    compiled = framejit.to_static(two_parts, backend=backend)
    for expected, got in zip(outcomes(two_parts), outcomes(compiled)):
        assert isinstance(expected, str) == isinstance(got, str), (expected, got)
        if isinstance(expected, str):
            assert expected == got
        else:
            for left, right in zip(expected, got):
                torch.testing.assert_close(left[0], right[0])
    assert len(compiled.graphs) == 1


def test_many_parts():
    """More than there are plans for."""

    def gradients(compile_it):
        torch.manual_seed(4)
        leaves = [torch.randn(3, requires_grad=True) for _ in range(30)]
        product = lambda *leaves: torch.stack(leaves).sin().prod(0).sum()  # noqa: E731
        function = framejit.to_static(product) if compile_it else product
        return [torch.autograd.grad(function(*leaves), leaves[i : i + 2]) for i in range(29)]

    assert_same(gradients(False), gradients(True))


def test_second_derivatives_of_a_part():
    def gradients(backend):
        net, loss = made(backend)
        x = torch.ones(2, 6, requires_grad=True)
        (grad,) = torch.autograd.grad(loss(x), x, create_graph=True)
        grad.norm().backward(inputs=[net[0].weight, x])
        return [grad, net[0].weight.grad, x.grad]

    torch.testing.assert_close(gradients("aten"), gradients(None))
