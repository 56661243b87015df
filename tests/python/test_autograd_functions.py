"""torch.autograd.Function in captured code: one graph without gradients, and breaks where its backward is not recorded.

Those with gradients that are one graph: test_function_gradients.py.
"""

import pytest
import torch
from torch.autograd.function import once_differentiable

import framejit
from support import counts
from support.autograd_functions import Cube, Reversed, Same, leaf
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


class Scaled(torch.autograd.Function):
    """x * factor, with another gradient than that, so that it shows which backward ran."""

    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.save_for_backward(x)
        ctx.factor = factor
        ctx.shape = x.shape
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 + x * ctx.factor, None


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x.exp() * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, first, second):
        x, y, product = ctx.saved_tensors
        LOG.append((first is None, second is None))
        zero = torch.zeros_like(x)
        return (zero if first is None else first * product) + (zero if second is None else second), y


class Rounded(torch.autograd.Function):
    """What is not differentiable, and what is no tensor, among the outputs."""

    @staticmethod
    def forward(ctx, x):
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        return x.round(), index, "text"

    @staticmethod
    def backward(ctx, gradient, _index, _text):
        return gradient


class AddsInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, amount):
        x.add_(amount)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5, None


class Logs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        LOG.append(("forward", ctx.needs_input_grad, torch.is_grad_enabled()))
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        LOG.append(("backward", tuple(gradient.shape)))
        return gradient * 2


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Scaled.apply(x.sin(), 3.0) + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        framejit.graph_break()
        return y + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 4


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("on purpose")


class Leaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        LOG.append(ctx)
        return x + 1


def check(fn, *args, **options):
    LOG.clear()
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (torch.tensor([0.5, -1.5, 2.0]),)), **options)


def check_gradients(fn, *args, **options):
    def run(*args):
        return fn(*args), args

    def after(pair):
        result, args = pair
        loss = sum(part.sum() for part in (result if isinstance(result, tuple) else (result,)) if torch.is_tensor(part))
        loss.backward()
        return [tensor.grad for tensor in args if isinstance(tensor, torch.Tensor)]

    return check(run, *(args or (leaf(),)), after=after, **options)


# Without gradients


INFERENCE = {
    "saved tensors and attributes": lambda x: Scaled.apply(x.sin(), 2.0) * x,
    "a default argument": lambda x: Scaled.apply(x.sin()) * x,
    "setup_context, two outputs": lambda x: WithSetup.apply(x, x + 1),
    "outputs that are no tensors": lambda x: Rounded.apply(x),
    "in place": lambda x: AddsInPlace.apply(x, 1.5),
    "in place on what was made": lambda x: AddsInPlace.apply(x * 2, 1.5),
    "a view": lambda x: Reversed.apply(x, 0.5),
    "a view of what was made": lambda x: Reversed.apply(x * 2, 0.5),
    "its input": lambda x: Same.apply(x) + 1,
    "its input, returned": lambda x: Same.apply(x),
    "an effect in forward": lambda x: Logs.apply(x) + len(LOG),
    "one in another": lambda x: Outer.apply(x) * 2,
    "three in a row": lambda x: Scaled.apply(Scaled.apply(Logs.apply(x), 3.0), 4.0),
}


@pytest.mark.parametrize("what", INFERENCE)
def test_one_graph_without_gradients(what):
    check(lambda x: INFERENCE[what](x))


@pytest.mark.parametrize("what", INFERENCE)
def test_one_graph_where_grad_mode_is_off(what):
    with torch.no_grad():
        check(lambda x: INFERENCE[what](x), leaf())


def test_grad_mode_inside_is_off():
    class Modes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                inner = torch.is_grad_enabled()
            return x + 1, torch.is_grad_enabled(), inner, ctx.needs_input_grad

    check(lambda x: (Modes.apply(x), torch.is_grad_enabled()))


def test_view_from_a_function_refuses_writes_as_in_eager():
    def f(x):
        return Reversed.apply(x, 0.5)

    compiled = framejit.to_static(f)
    messages = []
    for run in (f, compiled, compiled):
        y = run(torch.ones(3))
        with pytest.raises(RuntimeError) as error:
            y.mul_(leaf())
        messages.append(str(error.value))
    assert messages[0] == messages[1] == messages[2] and "custom Function" in messages[0]
    assert framejit.stats()["captures"] >= 1


def test_exception_in_forward_reaches_a_handler():
    def f(x):
        try:
            return Raises.apply(x.sin()) * 2
        except ValueError as error:
            return x + 1, str(error)

    check(f)


def test_break_in_forward_is_a_break_before_the_call():
    compiled = check(lambda x: Breaks.apply(x.sin()) * 2, graphs=at_least(2), breaks=at_least(1))
    assert len(compiled.graphs) >= 2


def test_context_that_leaves_the_function():
    def f(x):
        return Leaks.apply(x.sin()) * 2

    compiled = framejit.to_static(f)
    LOG.clear()
    for run in (f, compiled, compiled):
        run(torch.ones(3))
    assert len({type(context) for context in LOG}) == 1 and len(LOG) == 3
    LOG.clear()


def test_replaced_forward_is_noticed():
    class Changing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

    compiled = framejit.to_static(lambda x: Changing.apply(x) * 2)
    x = torch.ones(3)
    assert torch.equal(compiled(x), (x + 1) * 2)
    Changing.forward = staticmethod(lambda ctx, x: x + 10)
    assert torch.equal(compiled(x), (x + 10) * 2)


def test_in_a_module():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return Scaled.apply(self.linear(x), 2.0)

    torch.manual_seed(0)
    model = torch.nn.Sequential(Layer(), torch.nn.ReLU(), Layer())
    with torch.no_grad():
        check(lambda x: model(x), torch.ones(2, 3))


# With gradients


TRAINING = {
    "saved tensors and attributes": lambda x: Scaled.apply(x.sin(), 2.0) * x,
    "setup_context, two outputs": lambda x: WithSetup.apply(x.sin(), x + 1),
    "in place on what was made": lambda x: AddsInPlace.apply(x * 2, 1.5),
    "a view": lambda x: Reversed.apply(x.sin(), 0.5),
    "an effect in backward": lambda x: Logs.apply(x.sin()) * 2,
}


@pytest.mark.parametrize("what", TRAINING)
def test_one_break_with_gradients(what):
    """The call runs as in eager; its forward is a graph of its own, and the code around it is captured."""
    check_gradients(lambda x: TRAINING[what](x), graphs=at_least(1), breaks=1)


def test_the_break_is_the_call_and_says_why():
    def f(x):
        return Scaled.apply(x.sin(), 2.0) * x

    report = framejit.explain(f, leaf())
    assert report.stats["break_reasons"] == {"UnsupportedTensor": 1}
    assert "Scaled where gradients are recorded" in str(report)


def test_second_derivative():
    def f(x):
        return Cube.apply(x.sin()).square().sum()

    compiled = framejit.to_static(f)

    def second(run):
        x = leaf()
        (first,) = torch.autograd.grad(run(x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    assert torch.equal(second(f), second(compiled)) and torch.equal(second(f), second(compiled))


def test_effects_of_backward_happen_at_each_backward():
    def f(x):
        return Logs.apply(x.sin()) * 2

    compiled = framejit.to_static(f)
    expected = [("forward", (True,), False), ("backward", (3,))]
    for run in (f, compiled, compiled, compiled):
        LOG.clear()
        loss = run(leaf()).sum()
        assert LOG == expected[:1]
        loss.backward()
        assert LOG == expected


def test_training_steps_are_eager_ones():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return Scaled.apply(self.linear(x).tanh(), 0.5) + x

    def train(convert):
        torch.manual_seed(0)
        model = convert(torch.nn.Sequential(Layer(), Layer()))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((2, 3), float(step))).pow(2).sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    expected = train(lambda model: model)
    with counts.expect_counts("training", hits=at_least(3), fallbacks=0):
        trained = train(framejit.to_static)
    assert all(torch.equal(a, b) for a, b in zip(expected, trained))


def test_backward_inside_the_captured_function():
    def f(x):
        x = x.detach().requires_grad_()
        Scaled.apply(x.sin(), 2.0).sum().backward()
        return x.grad

    check(f, graphs=None, breaks=None, fallbacks=None)
