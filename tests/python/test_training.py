"""Training: gradients through captured code, backward inside it, optimizers, hooks, second order."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


def leaf(*values):
    return torch.tensor(values or (0.5, -1.5, 2.0), requires_grad=True)


def gradients_of(*leaves):
    """An `after` that runs backward over the result and gives the leaves' gradients."""

    def after(result):
        loss = result if isinstance(result, torch.Tensor) else sum(part.sum() for part in result)
        loss.sum().backward()
        return [tensor.grad for tensor in leaves]

    return after


def check(fn, *args, **options):
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (leaf(),)), **options)


def check_gradients(fn, *args, **options):
    """Compare outputs and the gradients of all arguments that require grad."""

    def run(*args):
        result = fn(*args)
        return result, args

    def after(pair):
        result, args = pair
        loss = result if isinstance(result, torch.Tensor) else sum(part.sum() for part in result)
        loss.sum().backward()
        return [tensor.grad for tensor in args if isinstance(tensor, torch.Tensor)]

    return check(run, *(args or (leaf(),)), after=after, **options)


# Gradients


def test_gradient_of_one_input():
    check_gradients(lambda x: (x * x).sin().sum())


def test_gradients_of_several_inputs_and_outputs():
    check_gradients(lambda x, y: (x * y, (x + y).exp(), y.cos()), leaf(), leaf(1.0, 2.0, 3.0))


def test_input_used_twice():
    check_gradients(lambda x: x * x + x.sin() * x)


def test_only_some_inputs_require_grad():
    check_gradients(lambda x, y: x * y, leaf(), torch.ones(3))


def test_output_without_gradient():
    check_gradients(lambda x: (x * 2, x.argmax(), (x > 0).float(), torch.ones(3)))


def test_unused_input_gets_no_gradient():
    check_gradients(lambda x, y: x * 2, leaf(), leaf())


def test_unused_output():
    weight = leaf()

    def f(x):
        return x * weight, (x * weight).exp()

    def after(result):
        result[0].sum().backward()
        return weight.grad

    check(f, torch.ones(3), after=after)


def test_gradient_with_a_given_cotangent():
    def after(result):
        result.backward(torch.tensor([1.0, 0.5, 0.25]))

    check(lambda x: x * x, after=after)


def test_gradient_accumulates_over_calls():
    weight = leaf()

    def f(x):
        return (x * weight).sum()

    compiled = framejit.to_static(f)
    for _ in range(3):
        compiled(torch.ones(3)).backward()
    expected = weight.grad.clone()
    weight.grad = None
    for _ in range(3):
        f(torch.ones(3)).backward()
    assert torch.equal(weight.grad, expected)


def test_input_that_is_not_a_leaf():
    base = leaf()

    def make():
        base.grad = None
        return (base * 2,), {}

    def after(result):
        result.sum().backward()
        return base.grad

    check(lambda x: x * x, make=make, after=after)


def test_graph_ahead_and_behind_in_one_chain():
    weight = leaf()

    def f(x):
        return x.sin() * weight

    compiled = framejit.to_static(f)

    def loss(run):
        weight.grad = None
        run(run(weight * 3).exp()).sum().backward()
        return weight.grad

    expected = loss(f)
    for _ in range(2):
        assert torch.equal(loss(compiled), expected)


def test_views_as_outputs_have_gradients():
    check_gradients(lambda x: (x[1:] * 1, x.view(3, 1), x.expand(2, 3)))


def test_view_of_a_result_is_differentiable():
    def f(x):
        y = x * 2
        return y.view(3, 1), y[0]

    check_gradients(f)


def test_retain_graph():
    def after(result):
        loss = result.sum()
        loss.backward(retain_graph=True)
        loss.backward()

    check(lambda x: x.exp() * x, after=after)


def test_second_backward_without_retaining_raises():
    def after(result):
        loss = result.sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)[:40]

    check(lambda x: x.exp() * x, after=after)


def test_saved_tensor_changed_in_place_raises():
    def after(result):
        y, z = result
        y.mul_(2)
        try:
            z.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)

    def f(x):
        y = x * 2
        return y, y.exp() * y

    check(f, after=after)


def test_second_order_is_right():
    def f(x):
        return (x**3).sum()

    x = leaf()
    compiled = framejit.to_static(f)

    def second(run):
        (first,) = torch.autograd.grad(run(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    expected = second(f)
    for _ in range(2):
        assert torch.equal(second(compiled), expected)


def write_a_view(x, buffer):
    buffer[0].add_(1)
    return (x**3).sum()


def batch_norm(x, buffer):
    return torch.nn.functional.batch_norm(x, buffer, torch.ones(3), training=True).pow(3).sum()


@pytest.mark.parametrize("fn", [write_a_view, batch_norm])
def test_second_order_writes_nothing_twice(fn):
    """What the forward wrote of the caller's tensors must not be written again: then it is an error that says so."""
    x, buffer, expected = torch.rand(4, 3, requires_grad=True), torch.zeros(3), torch.zeros(3)
    fn(x, expected)
    result = framejit.to_static(fn)(x, buffer)
    with pytest.raises(RuntimeError, match="changes a tensor from outside"):
        torch.autograd.grad(result, x, create_graph=True)
    assert torch.equal(buffer, expected)


def test_gradient_penalty_inside():
    def f(x):
        y = (x**3).sum()
        (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        return gradient.pow(2).sum()

    check_gradients(f, breaks=None, graphs=None)


def test_autograd_grad_inside():
    def f(x):
        y = (x.sin() * x).sum()
        (gradient,) = torch.autograd.grad(y, x)
        return gradient * 2, y

    check(f)


def test_backward_inside_fills_gradients():
    weight = leaf()

    def f(x):
        loss = (x * weight).sin().sum()
        loss.backward()
        return loss.detach(), weight.grad

    check(f, torch.ones(3))


def test_backward_inside_accumulates():
    weight = leaf()
    weight.grad = torch.ones(3)

    def f(x):
        for i in range(2):
            (x * weight * i).sum().backward()
        return weight.grad + 1

    check(f, torch.ones(3))


def test_zero_grad_forward_backward_and_step_inside():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    check(step, torch.ones(4, 3), torch.zeros(4, 2), breaks=None, graphs=None)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_training_loop_equals_eager(kind):
    def train(convert):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.05)
        forward = convert(lambda x, y: functional.mse_loss(model(x), y))
        losses = []
        for i in range(5):
            x = torch.full((4, 3), 0.1 * i)
            optimizer.zero_grad()
            loss = forward(x, x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model.state_dict()

    eager_losses, eager_state = train(lambda fn: fn)
    with counts.expect_counts("training", graphs=at_least(1), hits=at_least(4), captures=1, breaks=0, fallbacks=0):
        losses, state = train(framejit.to_static)
    assert losses == eager_losses
    for name in eager_state:
        assert torch.equal(state[name], eager_state[name]), name


# Regions, detach, in-place


def test_no_grad_region():
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = x * 3
        return y * z, z

    check_gradients(lambda x: f(x)[0])


def test_detach():
    check_gradients(lambda x: x.detach() * x + (x * 2).detach())


def test_detached_output_shares_storage():
    def f(x):
        y = x * 2
        return y, y.detach()

    check(f)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, w: x.detach().add_(x),
        lambda x, w: x.detach().view(-1).add_(x),
        lambda x, w: x.detach().mul_(w),
        lambda x, w: (x * 2).detach().add_(x),
        lambda x, w: w.detach()[1:].add_(x[1:]),
    ],
    ids=["itself", "a view of it", "another", "of a result", "a part"],
)
def test_detached_tensor_that_is_written_has_a_history_of_its_own(write):
    def gradients(call):
        x, w = leaf(), leaf(2.0, 3.0, 4.0)
        y = call(x, w)
        assert y.requires_grad
        return (y.detach(), *torch.autograd.grad(y.sum(), (x, w), allow_unused=True))

    expected = gradients(write)
    compiled = framejit.to_static(lambda x, w: write(x, w))
    for _ in range(2):
        for found, wanted in zip(gradients(compiled), expected):
            assert (found is None) == (wanted is None) and (found is None or torch.equal(found, wanted))


def test_everything_under_no_grad():
    def f(x):
        with torch.no_grad():
            return x * 2

    check(f)


def test_inplace_on_a_fresh_tensor():
    def f(x):
        y = x * 2
        y.add_(x).mul_(3)
        y[0] = 5
        return y * y

    check_gradients(f, miss=None)


def test_inplace_on_an_input_that_needs_grad():
    base = leaf()

    def make():
        base.grad = None
        return (base * 1,), {}

    def f(x):
        x.mul_(2)
        return x.sin()

    def after(result):
        result.sum().backward()
        return base.grad

    check(f, make=make, after=after)


def test_inplace_makes_an_input_need_grad():
    weight = leaf()

    def f(x):
        x.mul_(weight)
        return x

    def after(result):
        result.sum().backward()
        return weight.grad

    check(f, make=lambda: ((torch.ones(3),), {}), after=after)


def test_requires_grad_made_inside():
    def f(x):
        y = x.detach().clone().requires_grad_()
        loss = (y * y).sum()
        loss.backward()
        return y.grad

    check(f, torch.ones(3), breaks=None)


def test_retain_grad():
    def f(x):
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        return y.grad

    check(f, breaks=None, graphs=None)


def test_grad_attribute_is_read_and_written():
    weight = leaf()
    weight.grad = torch.ones(3)

    def f(x):
        old = weight.grad
        weight.grad = x * 2
        return old + 1, weight.grad is not None

    check(f, torch.ones(3), breaks=None)


# Breaks and autograd


def test_gradient_flows_across_a_break():
    def f(x):
        y = x.sin()
        framejit.graph_break()
        return y.cos() * x

    check_gradients(f, graphs=2, breaks=1)


def test_gradient_flows_across_a_data_dependent_branch():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y.exp()
        else:
            y = y.sin()
        return y * x

    check_gradients(f, graphs=2, breaks=1)


@pytest.mark.parametrize("name", ["max", "min", "median", "prod"])
def test_gradient_that_needs_data_breaks_at_its_operator(name):
    def f(x, y):
        whole = getattr((x * y).sin(), name)()
        return (whole * y).cos()

    check_gradients(f, leaf(), leaf(1.0, 2.0, 3.0), graphs=2, breaks=1)


def test_two_gradients_that_need_data():
    def f(x):
        y = x.exp()
        z = y * y.max()
        return (z + z.prod()).cos()

    static = check_gradients(f, graphs=3, breaks=2)
    assert [graph.reason for graph in static.graphs] == ["GradientNeedsData", "GradientNeedsData", ""]


def test_more_gradients_that_need_data_than_passes():
    """The capture gives up, with the reason of its last pass: a stop that had been dropped was read, and freed twice."""

    def f(x):
        for dim in range(4):
            x = torch.prod(x, dim, True)
        return x.cos()

    for _ in range(3):
        x = torch.rand(3, 2, 1, 2, requires_grad=True)
        check_gradients(f, x, graphs=0, breaks=at_least(1), fallbacks=None)
        assert "the backward cannot be recorded" in str(framejit.explain(f, x))


def test_gradient_that_needs_data_in_a_called_function():
    def scaled(x):
        return x / x.max()

    def f(x):
        return scaled(scaled(x.sin() + 1).cos()) * 2

    check_gradients(f, graphs=4, breaks=2)  # around each call, and the division, which both calls share


def test_operator_whose_gradient_needs_data_is_captured_where_none_is_asked_for():
    check(lambda x: x.detach().max() * x.detach(), graphs=1)


# Modules


def test_parameters_of_a_module():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2))
    check(lambda x: model(x), torch.ones(2, 3), after=gradients_of(*model.parameters()))


def test_shared_parameters():
    torch.manual_seed(0)
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    check(lambda x: b(a(x).tanh()), torch.ones(2, 3), after=gradients_of(a.weight, a.bias, b.bias))


def test_frozen_parameters():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    check(lambda x: model(x), torch.ones(2, 3), after=gradients_of(*model.parameters()))


def test_batch_norm_statistics():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    check(lambda x: model(x), torch.rand(2, 1, 5, 5), after=gradients_of(*model.parameters()))


def test_dropout_under_a_seed():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.1))
    check(lambda x: model(x), torch.ones(2, 3), after=gradients_of(*model.parameters()))


def test_dropout_draws_new_numbers_on_every_call():
    compiled = framejit.to_static(lambda x: functional.dropout(x, 0.5))
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(3)
    assert torch.equal(first, functional.dropout(x, 0.5)) and torch.equal(second, functional.dropout(x, 0.5))
    assert not torch.equal(first, second)


def test_embedding_and_attention():
    torch.manual_seed(0)
    embedding, projection = nn.Embedding(7, 4), nn.Linear(4, 4)
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])

    def f(tokens):
        x = embedding(tokens)
        return functional.scaled_dot_product_attention(projection(x), x, x, is_causal=True)

    check(f, tokens, after=gradients_of(embedding.weight, projection.weight))


def test_sparse_gradient_of_an_embedding():
    torch.manual_seed(0)
    embedding = nn.Embedding(7, 4, sparse=True)

    def after(result):
        result.sum().backward()
        return embedding.weight.grad.to_dense()

    check(lambda tokens: embedding(tokens) * 2, torch.tensor([1, 2, 2]), after=after, breaks=None, graphs=None)


@pytest.mark.runs_once("torch warns in one of the two runs, through functions of warnings that captures are guarded by")
def test_checkpointed_block():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def f(x):
        return checkpoint(model, x, use_reentrant=False)

    check(f, torch.ones(2, 3), after=gradients_of(*model.parameters()), breaks=None, graphs=None)


def test_autocast_training():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float()

    check(f, torch.ones(2, 3), after=gradients_of(*model.parameters()))


# Hooks and custom functions


def test_hook_on_a_parameter():
    weight = leaf()
    weight.register_hook(lambda gradient: gradient * 10)
    check(lambda x: x * weight, torch.ones(3), after=gradients_of(weight))


def test_hook_on_an_intermediate():
    def f(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 10)
        return y * y

    check_gradients(f, breaks=None, graphs=None)


def test_hook_on_an_output():
    def after(result):
        result.register_hook(lambda gradient: gradient * 10)
        result.sum().backward()

    check(lambda x: x * x, after=after)


def test_post_accumulate_grad_hook():
    weight = leaf()

    def scale(parameter):
        parameter.grad.mul_(5)

    weight.register_post_accumulate_grad_hook(scale)
    check(lambda x: x * weight, torch.ones(3), after=gradients_of(weight))


def test_custom_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 3 + x

    check_gradients(lambda x: Double.apply(x.sin()) * x, breaks=None, graphs=None)


def test_saved_tensors_hooks():
    packed = []

    def pack(tensor):
        packed.append(1)
        return tensor

    def f(x):
        return x.exp() * x

    def run(fn, x):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            y = fn(x)
        y.sum().backward()
        return x.grad

    expected = run(f, leaf())
    compiled = framejit.to_static(f)
    for _ in range(2):
        assert torch.equal(run(compiled, leaf()), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_anomaly_mode():
    def f(x):
        return x.sqrt()

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled):
        x = leaf(-1.0, 1.0)
        with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
            run(x).sum().backward()


def test_grad_fn_tells_whether_there_is_history():
    def f(x):
        y = x * 2
        return y, y.grad_fn is None, x.grad_fn is None, y.requires_grad, y.is_leaf

    check(f)


def test_gradient_arrives_from_another_thread():
    import threading

    weight = leaf()
    compiled = framejit.to_static(lambda x: (x * weight).exp().sum())
    loss = compiled(torch.ones(3))
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    assert torch.equal(weight.grad, weight.detach().exp())


def test_compiled_module_trains_like_its_copy():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 1))
    converted = copy.deepcopy(plain)
    converted = framejit.to_static(converted)

    def train(model):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(4):
            optimizer.zero_grad()
            model(torch.rand(5, 3)).pow(2).sum().backward()
            optimizer.step()
        return model.state_dict()

    expected = train(plain)
    with counts.expect_counts("training", captures=at_least(1), hits=at_least(3), breaks=0, fallbacks=0):
        state = train(converted)
    assert list(state) == list(expected)
    for name in expected:
        assert torch.equal(state[name], expected[name]), name


def saves_a_view_of_a_parameter(w, x):
    return (x @ w.t()).exp() @ w


def gives_what_it_saves(w, x):
    hidden = x @ w
    return (hidden * hidden.t()).sum(), hidden.view(-1)


def gives_a_mask_that_it_saves(w, x):
    mask = x > 0
    return torch.where(mask, x @ w, x), mask


def writes_what_it_saves(w, x):
    x.mul_(2)
    return (x @ w).sum()


@pytest.mark.parametrize("backend", [None, "native"])
@pytest.mark.parametrize(
    "function, written",
    [
        (saves_a_view_of_a_parameter, lambda w, x, given: w),
        (gives_what_it_saves, lambda w, x, given: given[1]),
        (gives_a_mask_that_it_saves, lambda w, x, given: given[1]),
        (writes_what_it_saves, lambda w, x, given: x),
    ],
    ids=lambda value: value.__name__,
)
def test_what_is_saved_was_written_between_forward_and_backward(function, written, backend):
    """The gradient would be of other numbers: autograd refuses, whatever of the tensor it has saved."""
    compiled = framejit.to_static(function, backend=backend)
    for run in (function, compiled, compiled):
        w, x = torch.ones(3, 3, requires_grad=True), torch.arange(-4.0, 5.0).view(3, 3)
        given = run(w, x)
        loss = given if isinstance(given, torch.Tensor) else given[0]
        with torch.no_grad():
            written(w, x, given).zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.sum().backward()
    assert len(compiled.graphs) == 1
