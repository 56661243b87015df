"""torch.autograd.Function where gradients are recorded: part of the graph, forward and backward, or a break that says why."""

import threading

import pytest
import torch
from torch.autograd.function import once_differentiable

import framejit
from support import counts
from support.autograd_functions import Cube, Reversed, Same, leaf
from support.counts import at_least
from support.native import kernels_asked_for, needs_kernels
from support.same_as_eager import assert_same_as_eager

LOG = []
SCALE = 2.0
TABLE = [1.0, 2.0]
SHIFT = torch.ones(3)


def function(backward, forward=None, setup=None):
    """A class of that backward; by default of a forward that saves its argument and doubles it."""

    def doubled(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    members = {"forward": staticmethod(forward or doubled), "backward": staticmethod(backward)}
    if setup:
        members["setup_context"] = staticmethod(setup)
    return type("Made", (torch.autograd.Function,), members)


class Gated(torch.autograd.Function):
    """Two tensors, a number and a text; gradients of those that ask for one."""

    @staticmethod
    def forward(ctx, x, gate, factor, mode="sum"):
        ctx.save_for_backward(x, gate)
        ctx.factor, ctx.mode, ctx.shape = factor, mode, tuple(x.shape)
        return x * gate.sigmoid() * factor

    @staticmethod
    def backward(ctx, gradient):
        x, gate = ctx.saved_tensors
        assert tuple(gradient.shape) == ctx.shape
        opened = gate.sigmoid()
        of_x = of_gate = None
        if ctx.needs_input_grad[0]:
            of_x = gradient * opened * ctx.factor
        if ctx.needs_input_grad[1]:
            of_gate = gradient * x * opened * (1 - opened) * (ctx.factor if ctx.mode == "sum" else 0.5)
        return of_x, of_gate, None, None


class SavesOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.unsaved = x
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] + gradient * ctx.unsaved.cos()


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + 2 * y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        return first * y + second, first * x + second * 2


class Partly(torch.autograd.Function):
    """An output that is not differentiable, one that is no tensor, and gradients that are None where none arrive."""

    @staticmethod
    def forward(ctx, x):
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        ctx.set_materialize_grads(False)
        return x.square(), index, "text"

    @staticmethod
    def backward(ctx, gradient, of_index, of_text):
        assert of_index is None and of_text is None
        return gradient * 5


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x.exp() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, gradient):
        x, y, product = ctx.saved_tensors
        return gradient * product, gradient * x.exp()


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        product = x.mm(weight.t())
        return product + bias if ctx.has_bias else product

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_bias = gradient.sum(0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return gradient.mm(weight), gradient.t().mm(x) if ctx.needs_input_grad[1] else None, of_bias


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.relu()

    @staticmethod
    def backward(ctx, gradient):
        (mask,) = ctx.saved_tensors
        kept = torch.where(mask, gradient, torch.zeros_like(gradient))
        return kept.masked_fill(~mask, 0) + gradient.masked_fill(~mask, 0.0)


class Laid(torch.autograd.Function):
    """Its operators depend on how the gradient lies in memory."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous().view(-1).reshape(gradient.shape) * 2 + gradient.t().t()


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + torch.rand_like(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.rand(gradient.shape)


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Cube.apply(x.sin()) + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def scaled(gradient):
    return gradient * SCALE


class ReadsGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * SCALE

    @staticmethod
    def backward(ctx, gradient):
        return scaled(gradient)


def check(fn, *args, **options):
    LOG.clear()
    options.setdefault("miss", None)

    def run(*args):
        return fn(*args), args

    def after(pair):
        result, args = pair
        parts = result if isinstance(result, tuple) else (result,)
        loss = sum((part * part.detach().cos()).sum() for part in parts if torch.is_tensor(part) and part.requires_grad)
        loss.backward()
        return [tensor.grad for tensor in args if isinstance(tensor, torch.Tensor)]

    return assert_same_as_eager(run, *(args or (leaf(),)), after=after, **options)


ONE_GRAPH = {
    "a saved tensor": lambda x: Cube.apply(x.sin()) * x,
    "the argument of the function": lambda x: Cube.apply(x),
    "numbers, texts and defaults": lambda x: Gated.apply(x.sin(), x, 3.0, "sum") + Gated.apply(x, x.cos(), 2, "mean"),
    "gradients of some arguments": lambda x: Gated.apply(x.sin(), torch.ones(3), 3.0, "sum"),
    "gradients of the others": lambda x: Gated.apply(torch.ones(3), x.sin(), 3.0, "sum"),
    "a saved output, and a tensor that is not saved": lambda x: SavesOutput.apply(x.sin()).cos(),
    "a gradient that goes through": lambda x: Straight.apply(x.sin() * 3) * x,
    "a view inside": lambda x: Reversed.apply(x.sin(), 0.5) * 2,
    "a view of the argument": lambda x: Reversed.apply(x, 0.5).exp(),
    "its input": lambda x: Same.apply(x.sin()) + 1,
    "two outputs": lambda x: Pair.apply(x.sin(), x.cos()),
    "one of two outputs": lambda x: Pair.apply(x.sin(), x.cos())[1] * 2,
    "outputs without gradients": lambda x: Partly.apply(x * 3),
    "setup_context": lambda x: WithSetup.apply(x.sin(), x + 1),
    "fewer arguments than gradients": lambda x: Affine.apply(x.view(1, 3), torch.eye(3)) * x,
    "all arguments": lambda x: Affine.apply(x.sin().view(1, 3), torch.eye(3) * 2, x),
    "differentiable once": lambda x: Once.apply(x * 2) + x,
    "masks": lambda x: Masked.apply(x.sin()) * x,
    "random numbers": lambda x: Noisy.apply(x.sin()) * x,
    "one in the forward of another": lambda x: Outer.apply(x * 2) * x,
    "a chain": lambda x: Straight.apply(Cube.apply(Reversed.apply(Cube.apply(x), 2.0))) * x,
    "twice with one argument": lambda x: Cube.apply(x) * Cube.apply(x * 1.5),
    "a name of the module": lambda x: ReadsGlobal.apply(x.sin()) * x,
    "a result that is not used": lambda x: (Cube.apply(x), x.sin() * 2)[1],
}


@pytest.mark.parametrize("what", ONE_GRAPH)
def test_one_graph(what):
    check(lambda x: ONE_GRAPH[what](x))


def test_gradient_of_another_layout():
    def f(x):
        return Laid.apply(x.sin())

    compiled = framejit.to_static(f)
    shapes = [lambda y: y.sum(), lambda y: (y.t() * torch.arange(6.0).view(3, 2)).sum(), lambda y: (y * y.detach()).sum()]
    with counts.expect_counts("layouts", graphs=1, breaks=0):
        for loss in shapes * 2:
            gradients = []
            for run in (f, compiled):
                x = torch.arange(6.0).view(2, 3).requires_grad_()
                loss(run(x)).backward()
                gradients.append(x.grad)
            assert torch.equal(*gradients)


def test_in_a_module_over_training_steps():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return Gated.apply(self.linear(x), x, 0.5, "sum") + Straight.apply(x)

    def train(convert):
        torch.manual_seed(0)
        model = convert(torch.nn.Sequential(Layer(), torch.nn.Tanh(), Layer()))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((2, 3), float(step))).pow(2).sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    expected = train(lambda model: model)
    with counts.expect_counts("training", graphs=1, breaks=0, hits=at_least(3), fallbacks=0):
        trained = train(framejit.to_static)
    assert all(torch.equal(a, b) for a, b in zip(expected, trained))


def both(f, use):
    """What `use` gives of the plain function, and of three calls of the compiled one in one graph."""
    compiled = framejit.to_static(f)
    with counts.expect_counts("one graph", graphs=1, breaks=0, fallbacks=0):
        return [use(f)] + [use(compiled) for _ in range(3)]


@pytest.mark.parametrize("name", ["Cube", "SavesOutput", "WithSetup", "Pair", "Gated", "Partly"])
def test_second_derivative(name):
    calls = {
        "Cube": lambda x: Cube.apply(x.sin()) * x,
        "SavesOutput": lambda x: SavesOutput.apply(x.sin()) * x,
        "WithSetup": lambda x: WithSetup.apply(x.sin(), x),
        "Pair": lambda x: torch.stack(Pair.apply(x.sin(), x)),
        "Gated": lambda x: Gated.apply(x.sin(), x, 3.0, "sum"),
        "Partly": lambda x: Partly.apply(x.sin())[0] * x,
    }

    def second(run):
        x = leaf()
        (first,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
        (again,) = torch.autograd.grad(first.square().sum(), x)
        return torch.stack([first.detach(), again])

    expected, *others = both(lambda x: calls[name](x), second)
    for other in others:
        torch.testing.assert_close(other, expected)


def test_second_derivative_of_what_is_differentiable_once():
    def second(run):
        x = leaf()
        (first,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()
        return first.detach()

    expected, *others = both(lambda x: Once.apply(x * 2), second)
    assert all(torch.equal(expected, other) for other in others)


def test_a_graph_that_is_kept_for_another_backward():
    def twice(run):
        x = leaf()
        loss = run(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        return x.grad

    expected, *others = both(lambda x: Cube.apply(x.sin()) * x, twice)
    assert all(torch.equal(expected, other) for other in others)


def test_hooks_on_arguments_and_results():
    def hooked(run):
        seen = []
        x = leaf()
        x.register_hook(lambda gradient: seen.append(gradient.clone()))
        y = run(x)
        y.register_hook(lambda gradient: gradient * 2)
        y.sum().backward()
        return torch.stack(seen + [x.grad])

    expected, *others = both(lambda x: Cube.apply(x.sin()), hooked)
    assert all(torch.equal(expected, other) for other in others)


def test_backward_on_other_threads():
    def threaded(run):
        gradients = []

        def work():
            x = leaf()
            run(x).sum().backward()
            gradients.append(x.grad)

        for thread in [threading.Thread(target=work) for _ in range(3)]:
            thread.start()
            thread.join()
        return torch.stack(gradients)

    expected, *others = both(lambda x: Cube.apply(x.sin()), threaded)
    assert all(torch.equal(expected, other) for other in others)


# What changes between the forward and the backward


def after_change(run, change):
    x = leaf()
    y = run(x) * 2
    undo = change()
    try:
        y.sum().backward()
    finally:
        undo()
    return x.grad


def same_after_change(f, change):
    compiled = framejit.to_static(f)
    x = leaf()
    compiled(x).sum().backward()
    expected = after_change(f, change)
    unchanged = after_change(f, lambda: lambda: None)
    assert not torch.equal(expected, unchanged)
    with counts.expect_counts("changes", breaks=0, fallbacks=0):
        assert torch.equal(after_change(compiled, change), expected)
        assert torch.equal(after_change(compiled, lambda: lambda: None), unchanged)
        assert torch.equal(after_change(compiled, change), expected)


def test_a_name_that_the_backward_reads():
    def change():
        global SCALE
        SCALE = 5.0

        def undo():
            global SCALE
            SCALE = 2.0

        return undo

    same_after_change(lambda x: ReadsGlobal.apply(x.sin()) * x, change)


def test_a_function_that_the_backward_calls():
    def change():
        global scaled
        before, scaled = scaled, lambda gradient: gradient * 9

        def undo():
            global scaled
            scaled = before

        return undo

    same_after_change(lambda x: ReadsGlobal.apply(x.sin()) * x, change)


def test_a_variable_that_the_backward_closes_over():
    factor = 2.0

    def backward(ctx, gradient):
        return gradient * factor

    def change():
        nonlocal factor
        factor = 3.0

        def undo():
            nonlocal factor
            factor = 2.0

        return undo

    Made = function(backward)
    same_after_change(lambda x: Made.apply(x.sin()), change)


def test_the_backward_itself():
    Made = function(lambda ctx, gradient: gradient * 2)
    before = Made.__dict__["backward"]

    def change():
        Made.backward = staticmethod(lambda ctx, gradient: gradient * 4)
        return lambda: setattr(Made, "backward", before)

    same_after_change(lambda x: Made.apply(x.sin()), change)


def test_backward_that_is_recorded_while_the_hook_is_in():
    def inner(x):
        return ReadsGlobal.apply(x.sin()) * x

    def f(x):
        framejit.graph_break()
        y = inner(x) * 2
        framejit.graph_break()
        y.sum().backward()
        return x.grad

    compiled = framejit.to_static(f)
    expected = f(leaf())
    for _ in range(3):
        assert torch.equal(compiled(leaf()), expected)
    assert framejit.stats()["captures"] >= 1


def test_a_saved_tensor_that_is_written():
    def written(run):
        x, scale = leaf(), torch.ones(3)
        y = run(x, scale)
        scale.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        return x.detach()

    both(lambda x, scale: Gated.apply(x.sin(), scale, 1.0, "sum"), written)


# What stays a break


def mark_dirty(ctx, x):
    x.add_(1)
    ctx.mark_dirty(x)
    return x


def keeps_list(ctx, x):
    ctx.items = [1.0, 2.0]
    return x * 2


def two(ctx, x):
    ctx.set_materialize_grads(False)
    return x * 2, x * 3


def effect(ctx, gradient):
    LOG.append(tuple(gradient.shape))
    return gradient * 2


def prints(ctx, gradient):
    print("backward")
    return gradient * 2


def writes_context(ctx, gradient):
    ctx.runs = 1
    return gradient * 2


def writes_global(ctx, gradient):
    global WRITTEN
    WRITTEN = 1
    return gradient * 2


def handles(ctx, gradient):
    try:
        return gradient.view(-1) * 2
    except RuntimeError:
        return gradient


def none_at_times(ctx, first, second):
    return second * 2 if first is None else first


def reads_data(ctx, gradient):
    return gradient * 2 if gradient.sum() > 0 else gradient * 3


@framejit.to_static
def captured(gradient):
    return gradient * 2


def in_place(ctx, gradient):
    return gradient.mul_(2)


BREAKS = {
    "an effect": (function(effect), "in its backward a 'list' is read"),
    "output": (function(prints), "in its backward"),
    "the context is written": (function(writes_context), "in its backward a name, an attribute or an item is written"),
    "a global is written": (function(writes_global), "in its backward a name, an attribute or an item is written"),
    "an exception may be handled": (function(handles), "in its backward an exception may be handled"),
    "a list of the program": (function(lambda ctx, g: g * TABLE[1]), "in its backward a 'list' is read"),
    "a sum of a list": (function(lambda ctx, g: g * sum(TABLE)), "in its backward a 'list' is read"),
    "an iterator of a list": (function(lambda ctx, g: g * next(iter(TABLE))), "in its backward a 'list' is read"),
    "pairs of a list": (function(lambda ctx, g: g * [a * b for a, b in zip(TABLE, TABLE)][0]), "in its backward a 'list' is read"),
    "a tensor of the program": (function(lambda ctx, g: g * SHIFT), "in its backward a 'Tensor' is read"),
    "a tensor's data": (function(reads_data), "in its backward"),
    "how a gradient lies in memory": (
        function(lambda ctx, g: g * 2 if g.is_contiguous() else g * 3),
        "in its backward it asks for 'is_contiguous'",
    ),
    "a gradient is changed": (function(in_place), "its backward changes a tensor that it did not make"),
    "not linear": (function(lambda ctx, g: g.clamp(-0.5, 0.5)), "is not known to be linear in its gradients: aten::clamp"),
    "a sum with a constant": (function(lambda ctx, g: g + 1), "is not known to be linear in its gradients: aten::add"),
    "a square": (function(lambda ctx, g: g * g), "is not known to be linear in its gradients: aten::mul"),
    "a constant in parts": (
        function(lambda ctx, g: g.masked_fill(g.detach() * 0 == 0, 1.0)),
        "is not known to be linear in its gradients: aten::eq",
    ),
    "whole numbers": (
        function(lambda ctx, g: (g * 4).to(torch.int64).to(g.dtype)),
        "is not known to be linear in its gradients: aten::_to_copy",
    ),
    "the bits of numbers": (
        function(lambda ctx, g: g.view(torch.int32).view(torch.float32)),
        "is not known to be linear in its gradients: aten::view.dtype",
    ),
    "filled with one": (
        function(lambda ctx, g: g.masked_fill(ctx.saved_tensors[0] > 0, 1.0)),
        "is not known to be linear in its gradients: aten::masked_fill",
    ),
    "filled in place": (function(lambda ctx, g: g.clone().fill_(1)), "is not known to be linear in its gradients: aten::fill_"),
    "a constant": (function(lambda ctx, g: torch.ones(3)), "is not known to be linear in its gradients: a constant"),
    "a default dtype": (function(lambda ctx, g: g.to(torch.get_default_dtype())), "in its backward it asks for"),
    "an argument in place": (function(lambda ctx, g: g * 2, mark_dirty), "it changes an argument in place"),
    "a list in the context": (function(lambda ctx, g: g * ctx.items[1], keeps_list), "its context has more than tensors"),
    "gradients that may be None": (function(none_at_times, two), "which of its gradients are None"),
    "a captured function": (function(lambda ctx, g: captured(g)), "in its backward a 'framejit.StaticFunction' is read"),
    "no result": (function(lambda ctx, g: (g, g)), "no gradient for each argument"),
}


@pytest.mark.parametrize("what", [each for each in BREAKS if each != "no result"])
def test_break(what, capsys):
    made, _ = BREAKS[what]
    check(lambda x: made.apply(x * 3), breaks=at_least(1), graphs=at_least(1))


@pytest.mark.parametrize("what", BREAKS)
def test_break_says_why(what):
    made, why = BREAKS[what]
    report = framejit.explain(lambda x: made.apply(x * 3), leaf())
    assert report.stats["break_reasons"] == {"UnsupportedTensor": 1}
    assert "where gradients are recorded" in str(report) and why in str(report), str(report)


def test_an_argument_that_the_context_holds_may_be_written_before_the_backward():
    """Eager's backward reads what it holds by then: only what is saved may not be written."""

    class Holds(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.weight = weight[:2]
            return x[:2] * ctx.weight

        @staticmethod
        def backward(ctx, gradient):
            return torch.cat([gradient * ctx.weight, gradient[:1]]), None

    def f(x, weight):
        return Holds.apply(x, weight).sin()

    found = []
    for run in (f, *[framejit.to_static(f)] * 3):
        x, weight = leaf(), torch.ones(3)
        loss = run(x, weight).sum()
        weight.add_(2)
        loss.backward()
        found.append(x.grad)
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert "holds a tensor from outside" in str(framejit.explain(f, leaf(), torch.ones(3)))


@needs_kernels
@pytest.mark.parametrize("which", ["Cube", "Gated", "Masked"])
def test_kernels_around_a_function(which):
    calls = {
        "Cube": lambda x: Cube.apply(x.sin() * 2) * x,
        "Gated": lambda x: Gated.apply(x.sin() * 2, x + 1, 3.0, "mean").exp(),
        "Masked": lambda x: Masked.apply(x.sin() * 2) * x,
    }
    before = kernels_asked_for()

    def gradient(run):
        x = leaf()
        run(x).sum().backward()
        return x.grad

    compiled = framejit.to_static(calls[which], backend="native")
    with counts.expect_counts("one graph", graphs=1, breaks=0, fallbacks=0):
        found = [gradient(compiled) for _ in range(2)]
    for each in found:
        torch.testing.assert_close(each, gradient(calls[which]))
    assert kernels_asked_for() > before


def test_results_that_leave_as_views_break():
    for f in (lambda x: Reversed.apply(x.sin(), 0.5), lambda x: Same.apply(x), lambda x: Reversed.apply(x * 2, 1.0).view(3, 1)):
        check(lambda x, f=f: f(x), graphs=None, breaks=at_least(1))


def test_backward_that_raises():
    def fails(ctx, gradient):
        raise ValueError("on purpose")

    Made = function(fails)

    def f(x):
        return Made.apply(x.sin()) * 2

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled):
        y = run(leaf())
        with pytest.raises(ValueError, match="on purpose"):
            y.sum().backward()
    assert framejit.stats()["breaks"] >= 1


def test_forward_that_raises_is_handled():
    def fails(ctx, x):
        raise ValueError("on purpose")

    Made = function(lambda ctx, gradient: gradient, fails)

    def f(x):
        try:
            return Made.apply(x.sin()) * 2
        except ValueError as error:
            return x * len(str(error))

    check(f)


def test_context_that_leaves_the_function():
    def keeps(ctx, x):
        LOG.append(ctx)
        return x + 1

    Made = function(lambda ctx, gradient: gradient * 2, keeps)
    compiled = framejit.to_static(lambda x: Made.apply(x.sin()) * 2)
    for run in (compiled, compiled):
        LOG.clear()
        x = leaf()
        run(x).sum().backward()
        assert len(LOG) == 1 and LOG[0].needs_input_grad == (True,)
    LOG.clear()


def test_mixed_devices_under_full_graph_say_where():
    """An operator that eager refuses is an error that names the operator and the devices."""
    compiled = framejit.to_static(full_graph=True)(lambda x: x + torch.ones(3, device="meta"))
    with pytest.raises(Exception, match="is given tensors on"):
        compiled(torch.ones(3))
