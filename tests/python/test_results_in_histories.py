"""Results of one graph that lie in the history of others of its results, as eager's do: a backward goes through them."""

import weakref

import pytest
import torch
from torch import nn

import framejit
from support.gradients import assert_same, facts

BACKENDS = pytest.mark.parametrize("backend", ["aten", "native"])


def leaves(count=3):
    torch.manual_seed(4)
    return [torch.randn(3, requires_grad=True) for _ in range(count)]


def inner_and_outer(x, a, b):
    inner = (x * a).sin()
    return inner, (inner * inner.cos() + inner * b).exp().sum()


def viewed(x, a, b):
    inner = (x * a).sin().reshape(3, 1)
    return inner, (inner * inner.cos() + inner * b).exp().sum()


def assert_alike(function, observe, backend="aten"):
    """What `observe` tells of the function and of one graph of it."""
    compiled = framejit.to_static(function, backend=backend)
    for _ in range(2):
        expected, got = observe(function), observe(compiled)
        if backend == "aten":
            assert_same(expected, got)
        else:
            torch.testing.assert_close(got, expected)
    assert len(compiled.graphs) == 1


def run(function):
    a, b, _ = leaves()
    return (a, b, *function(torch.arange(3.0) + 1, a, b))


@BACKENDS
@pytest.mark.parametrize("function", [inner_and_outer, viewed])
def test_kept_gradient(function, backend):
    def observe(function):
        a, b, inner, outer = run(function)
        inner.retain_grad()
        outer.backward()
        return inner.grad, a.grad, b.grad

    assert_alike(function, observe, backend)


@BACKENDS
@pytest.mark.parametrize("function", [inner_and_outer, viewed])
def test_hook_that_replaces(function, backend):
    def observe(function):
        a, b, inner, outer = run(function)
        inner.register_hook(lambda grad: grad * 2)
        (outer + inner.sum()).backward()
        return a.grad, b.grad

    assert_alike(function, observe, backend)


@pytest.mark.parametrize("function", [inner_and_outer, viewed])
def test_gradient_of_a_result_for_another(function):
    def observe(function):
        a, b, inner, outer = run(function)
        return torch.autograd.grad(outer, [inner, b])

    assert_alike(function, observe)


def chain(x, weights):
    hidden = []
    for weight in weights:
        x = (x * weight).tanh() + weight
        hidden.append(x)
    return hidden


@BACKENDS
@pytest.mark.parametrize("chosen", [(-1,), (0, -1), (2,), (1, 3)], ids=str)
def test_hidden_states(chosen, backend):
    def observe(function):
        weights = leaves(5)
        hidden = function(torch.ones(3), weights)
        for state in hidden:
            state.retain_grad()
        sum(hidden[i].sum() for i in chosen).backward()
        return [tensor.grad for tensor in weights + list(hidden) if tensor.grad is not None]

    assert_alike(chain, observe, backend)


def test_second_derivatives_of_hidden_states():
    def observe(function):
        weights = leaves(5)
        x = torch.ones(3, requires_grad=True)
        hidden = function(x, weights)
        grads = torch.autograd.grad(hidden[3].sum(), [x, *weights[:4]], create_graph=True)
        return [*grads, *torch.autograd.grad(sum(grad.sin().sum() for grad in grads), [x, *weights[:4]])]

    expected, got = observe(chain), observe(framejit.to_static(chain))
    torch.testing.assert_close(got, expected)


def test_one_history_for_each_state():
    """A walk of autograd's graph finds as many nodes as states, and each but once."""
    hidden = framejit.to_static(chain)(torch.ones(3), leaves(5))
    node, found = hidden[-1].grad_fn, []
    while node is not None:
        found.append(node)
        following = {edge for edge, _ in node.next_functions if type(edge).__name__ == "CppFunction"}
        assert len(following) <= 1
        node = following.pop() if following else None
    assert found == [state.grad_fn for state in reversed(hidden)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 2), (2, 0)], ids=str)
def test_one_after_the_other(order):
    def twins(x, a, b):
        one, other = (x * a * b).exp(), (x.cos() * b * b).sin()
        return one, other, (one * other).sum()

    def observe(function):
        a, b, *results = run(function)
        seen = []
        for i in order:
            try:
                results[i].sum().backward()
            except RuntimeError as error:
                seen.append(str(error)[:40])
            seen.append([None if leaf.grad is None else facts(leaf.grad) for leaf in (a, b)])
        return seen

    assert_alike(twins, observe)


def test_history_that_has_saved_nothing_can_be_gone_over_again():
    def observe(function):
        a, b, _ = leaves()
        result = function(a, b)
        result.sum().backward()
        result.sum().backward()
        return a.grad, b.grad

    assert_alike(lambda a, b: (a + b) - 1, observe)


def test_sums_over_graphs_in_eagers_order():
    """A leaf that several graphs use, each more than once: gradients are added one by one."""

    def step(x, w, v):
        x = (x * w).sin() + w * v
        x = (x * w).cos() * w
        framejit.graph_break()
        x = (x + w).tanh() * w
        return (x * w - w * v).sin()

    def observe(function):
        a, b, _ = leaves()
        x = torch.linspace(0.3, 0.9, 3)
        for _ in range(3):
            x = function(x, a, b)
        x.sum().backward()
        return a.grad, b.grad

    compiled = framejit.to_static(step)
    for _ in range(2):
        assert_same(observe(step), observe(compiled))
    assert len(compiled.graphs) >= 2


def test_sums_where_results_take_turns():
    def turns(x, w, v):
        one = other = x
        for _ in range(3):
            one = (one * w).sin() + v
            other = (other * w).cos() * v
        return one, other

    def observe(function):
        a, b, _ = leaves()
        one, other = function(torch.linspace(0.3, 0.9, 3), a, b)
        (one * 2 + other).sum().backward()
        return a.grad, b.grad

    assert_alike(turns, observe)


@BACKENDS
def test_features_beside_logits(backend):
    """As for the maps of what a classifier looks at: gradients at features in the middle."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    head = nn.Linear(4, 3)

    def classify(x):
        features = body(x)
        return features, head(features.mean(dim=(2, 3)))

    def observe(function):
        body.zero_grad()
        features, logits = function(torch.linspace(-1, 1, 36).reshape(1, 1, 6, 6))
        features.retain_grad()
        logits[0, 1].backward()
        return [features.grad, *(parameter.grad for parameter in body.parameters())]

    assert_alike(classify, observe, backend)


@BACKENDS
@pytest.mark.parametrize("parts", ["flatten", "unbind", "chain"])
def test_views_of_inputs(parts, backend):
    """LibTorch's own operation makes them, and what else reads them goes through it."""

    def step(x, a, b):
        if parts == "flatten":
            views = (x.flatten(),)
        elif parts == "unbind":
            views = x.unbind()
        else:
            turned = x.t()
            views = turned, turned.flatten()[1:4]
        return (*views, (views[0].sin().sum() * a + views[-1].cos().sum() * b * a).sum(), (x * b.sum()).sum())

    def observe(function):
        a, b, _ = leaves()
        x = torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()
        *views, one, other = function(x * 1, a, b)
        for view in views:
            if parts != "unbind":
                view.retain_grad()
        heard = []
        views[0].register_hook(lambda grad: heard.append(grad.clone()))
        (one * 2 + other + views[0].sum()).backward()
        return [*heard, x.grad, a.grad, b.grad, *(view.grad for view in views if view.retains_grad)]

    assert_alike(step, observe, backend)


def test_views_of_results_written_in_place():
    def step(x, a, b):
        root = (x * a).sin()
        view = root.reshape(3, 1)
        return root, view, (view * b).exp().sum() + root.cos().sum()

    for write in ("root", "view"):

        def observe(function):
            a, b, root, view, loss = run(step) if function is step else run(function)
            (root if write == "root" else view).mul_(2)
            (root.sum() + view.cos().sum()).backward(retain_graph=True)
            grads = [a.grad.clone(), str(type(b.grad))]
            try:
                loss.backward()
            except RuntimeError as error:
                grads.append(str(error)[:60])
            return [str(grad) if isinstance(grad, str) else facts(grad) for grad in grads]

        assert_alike(step, observe)


def test_results_name_the_operations_that_made_them_in_eager():
    def program(x):
        y = x.sin()
        a, b = (y * 2).unbind()
        y = y.add_(1)
        values, _ = y.max(0)
        return y, y.cos(), a * b, b, values, torch.nn.functional.linear(y.expand(2, 2), y.expand(3, 2)), y[1:]

    def names(results):
        return [(t.grad_fn.name(), t.output_nr) for t in results]

    x = torch.tensor([0.5, -1.5], requires_grad=True)
    compiled = framejit.to_static(program)
    for _ in range(3):
        expected, got = program(x), compiled(x)
        assert names(got) == names(expected)
        assert repr(got) == repr(expected)
    assert compiled.cache_info().hits == 2 and len(compiled.graphs) == 1


# ---- a second derivative begins with inputs that are gone ----


def across_a_break(x, w):
    y = x.sin()
    framejit.graph_break()
    return (y * 2 + w).exp()


def with_a_temporary(x, w):
    return ((x + x.new_ones(3).cumsum(0)) * 2 + w).exp()


def of_two_graphs(x, w):
    y = x.exp() + 1
    framejit.graph_break()
    z = y / 2 - w
    framejit.graph_break()
    return z + z.sum()


@pytest.mark.parametrize("function", [across_a_break, with_a_temporary, of_two_graphs], ids=lambda f: f.__name__)
def test_second_derivative_where_a_tensor_between_is_gone(function):
    def observe(call):
        x, w = torch.tensor([0.5, -1.5, 2.0], requires_grad=True), torch.linspace(0, 1, 3).requires_grad_()
        first = torch.autograd.grad(call(x, w).sin().sum(), [x, w], create_graph=True)
        return [*first, *torch.autograd.grad(sum(grad.sin().sum() for grad in first), [x, w])]

    compiled = framejit.to_static(function)
    expected = observe(function)
    for _ in range(2):
        torch.testing.assert_close(observe(compiled), expected)
    assert compiled.cache_info().hits


def test_tensor_between_dies_where_eagers_does():
    def observe(call):
        x = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)
        y = x.sin()
        reference = weakref.ref(y)
        z = call(y)
        del y
        return reference() is None, z.sum()

    compiled = framejit.to_static(lambda y: y * 2)
    for _ in range(2):
        gone, result = observe(compiled)
        assert gone and observe(lambda y: y * 2)[0]
        assert result.requires_grad
