"""torch.utils.checkpoint in captured code: a plain call without gradients, computed again in the backward with them."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, noop_context_fn

import framejit
from support import counts
from support.autograd_functions import Same
from support.counts import at_least
from support.native import needs_kernels, peak_memory
from support.same_as_eager import assert_same_as_eager

LOG = []


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))


def check(fn, *args, **options):
    LOG.clear()
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (torch.ones(2, 3),)), **options)


def logged(x, scale=2.0, shift=None):
    LOG.append("run")
    y = (x * scale).sin()
    return y if shift is None else y + shift


INFERENCE = {
    "a function": lambda x: checkpoint(logged, x, use_reentrant=False) + 1,
    "arguments": lambda x: checkpoint(logged, x, 3.0, shift=x, use_reentrant=False, preserve_rng_state=False),
    "the default context": lambda x: checkpoint(logged, x, use_reentrant=False, context_fn=noop_context_fn),
    "one in another": lambda x: checkpoint(lambda y: checkpoint(logged, y, use_reentrant=False), x, use_reentrant=False),
}


@pytest.mark.parametrize("what", INFERENCE)
def test_one_graph_where_grad_mode_is_off(what):
    with torch.no_grad():
        check(lambda x: INFERENCE[what](x))


def test_module_where_grad_mode_is_off():
    layers = model()

    @torch.no_grad()
    def f(x):
        return checkpoint(layers, x, use_reentrant=False) * 2

    check(f)


def test_break_in_what_is_checkpointed():
    def inner(x):
        y = x * 2
        framejit.graph_break()
        return y + 1

    with torch.no_grad():
        check(lambda x: checkpoint(inner, x.sin(), use_reentrant=False) * 2, graphs=at_least(1), breaks=at_least(1))


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.first, self.second = model(0), model(1)
        self.use_reentrant = use_reentrant

    def forward(self, x):
        x = self.first(x.sin())
        x = checkpoint(self.second, x, use_reentrant=self.use_reentrant)
        return x.cos() * 2


def gradients_of(module):
    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    return after


def test_training_is_one_graph():
    module = Checkpointed(False)
    check(lambda x: module(x), after=gradients_of(module))
    graph = framejit.explain(module, torch.ones(2, 3)).graphs[0].graph()
    marked = [line for line in str(graph).splitlines() if " recompute 1" in line]
    assert len(marked) == len(framejit.explain(lambda x: module.second(x), torch.ones(2, 3)).graphs[0].graph().nodes)
    assert framejit.Graph.parse(str(graph), graph.constants).same_as(graph)


def test_reentrant_training_is_eager_at_the_call_with_graphs_on_both_sides():
    module = Checkpointed(True)
    check(lambda x: module(x), after=gradients_of(module), graphs=2, breaks=1)
    assert framejit.explain(module, torch.ones(2, 3)).stats["break_reasons"] == {"Recomputation": 1}


class Layers(nn.Module):
    """Loops, containers and iterators of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)  # of some weights a gradient is a small difference of large sums
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x, *, skip=0):
        seen = []
        for i, (layer, scale) in enumerate(zip(self.layers, (1.0, 2.0, 3.0))):
            if i != skip:
                seen.append(layer(x) * scale)
        named = {"last": seen[-1]}
        named["first"] = seen[0]
        ways = iter([x, x.cos()])
        return sum(t.sin() for t in [*named.values(), next(ways), next(ways)])


LAYERS, WEIGHT = Layers(), nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))


def on_autocast(x):
    with torch.autocast("cpu"):
        return (x @ WEIGHT).float().sigmoid()


def partly_without_gradients(x):
    with torch.no_grad():
        scale = (x @ WEIGHT).exp()
    return (x @ WEIGHT).sin() * scale


def in_place(x):
    y = (x @ WEIGHT).sin()
    z = y * 2
    return z.add_(x).exp()


def several(x, y=None):
    return (x @ WEIGHT).sin(), y, {"both": x * y, "view": x.t()}


def nested(x):
    return checkpoint(lambda y: (y @ WEIGHT).tanh().exp(), x.sin(), use_reentrant=False).cos()


TRAINING = {
    "loops": lambda x: checkpoint(LAYERS, x, skip=1, use_reentrant=False),
    "autocast": lambda x: checkpoint(on_autocast, x, use_reentrant=False),
    "no_grad inside": lambda x: checkpoint(partly_without_gradients, x, use_reentrant=False),
    "in place": lambda x: checkpoint(in_place, x, use_reentrant=False),
    "nested": lambda x: checkpoint(nested, x, use_reentrant=False),
    "random": lambda x: checkpoint(lambda y: nn.functional.dropout(y @ WEIGHT, 0.3).sin(), x, use_reentrant=False),
    "several, after another": lambda x: sum(
        (a + b + c["both"] + c["view"]).sum()
        for a, b, c in [checkpoint(several, checkpoint(in_place, x, use_reentrant=False), y=x, use_reentrant=False)]
    ),
}


@pytest.mark.parametrize("what", TRAINING)
@pytest.mark.parametrize("size", [3, pytest.param(3000, id="large")])
@pytest.mark.parametrize("backend", ["aten", pytest.param("native", marks=needs_kernels)])
def test_gradients_where_the_function_is_in_the_graph(what, size, backend):
    if what == "several, after another" and size != 3:
        size = 3  # it adds a transposed tensor
    x = torch.linspace(-2, 2, 3 * size).reshape(size, 3)
    parameters = [WEIGHT, *LAYERS.parameters()]

    def run(fn):
        torch.manual_seed(0)
        leaf = x.clone().requires_grad_()
        result = fn(leaf)
        gradients = torch.autograd.grad(result.sum(), [leaf, *parameters], allow_unused=True)
        return [result, *gradients]

    fn = TRAINING[what]
    compiled = framejit.to_static(lambda y: fn(y), backend=backend)
    with counts.counting() as counted:
        results = [run(compiled) for _ in range(3)]
    assert (counted.graphs, counted.breaks, counted.hits) == (1, 0, 2)
    for result in results:
        if backend == "aten":
            assert all(a is b is None or torch.equal(a, b) for a, b in zip(run(fn), result))
        else:
            torch.testing.assert_close(result, run(fn), rtol=1e-4, atol=1e-4)  # sums of 3,000


class Deep(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16)) for _ in range(8))
        self.checkpointed = checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


@pytest.mark.parametrize("backend", ["aten", pytest.param("native", marks=needs_kernels)])
def test_what_is_computed_again_is_not_kept(backend):
    x = torch.randn(4096, 16)

    def peak(fn, model):
        def step():
            model.zero_grad()
            fn(x).square().mean().backward()

        step(), step()
        return peak_memory(step)

    plain, checkpointed = Deep(False), Deep(True)
    compiled = framejit.to_static(checkpointed, backend=backend)
    inside = 8 * 4096 * 64 * 4  # what the tanh of all blocks gave
    assert peak(plain, plain) > inside
    assert peak(compiled, checkpointed) < inside
    assert peak(compiled, checkpointed) <= 1.1 * peak(checkpointed, checkpointed)


def test_second_derivatives():
    def f(x):
        return checkpoint(lambda y: (y @ WEIGHT).sin(), x * 2, use_reentrant=False).sum()

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    results = []
    for fn in (f, framejit.to_static(f)):
        leaf = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(fn(leaf), leaf, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), leaf)[0])
    assert torch.equal(*results)


def test_effects_of_the_recomputation_happen():
    def f(x):
        return checkpoint(logged, x * 2, use_reentrant=False) + 1

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled, compiled):
        LOG.clear()
        loss = run(torch.ones(3, requires_grad=True)).sum()
        assert LOG == ["run"]
        loss.backward()
        assert LOG == ["run", "run"]


NORM, TOTAL, GENERATOR = nn.BatchNorm1d(3), torch.zeros(3), torch.Generator()
BEFORE = []


def writes_outside(x):
    TOTAL.add_(x.detach().sum(0))
    return x.sin()


def appends_to(seen, x):
    seen.append(x)
    return x.sin()


def fills_what_was_there(x):
    seen = []
    return checkpoint(appends_to, seen, x, use_reentrant=False) + len(seen)


def advances_what_was_there(x):
    ways = iter([2.0, 3.0])
    return checkpoint(lambda y: y.sin() * next(ways), x, use_reentrant=False)


def changes_another_calls_list(x):
    seen = checkpoint(lambda y: [y.sin()], x, use_reentrant=False)
    checkpoint(appends_to, seen, x, use_reentrant=False)
    return seen[0] * len(seen)


def leaves_grad_mode_off(x):
    y = checkpoint(lambda z: (z.sin(), torch.set_grad_enabled(False))[0], x, use_reentrant=False)
    torch.set_grad_enabled(True)
    return y


def with_generator(x):
    return x * torch.rand(3, generator=GENERATOR)


BREAKS = {
    "batch norm that counts": lambda x: checkpoint(NORM, x, use_reentrant=False),
    "a write outside": lambda x: checkpoint(writes_outside, x, use_reentrant=False),
    "a list from before": fills_what_was_there,
    "an iterator from before": advances_what_was_there,
    "a list of another call": changes_another_calls_list,
    "a generator": lambda x: checkpoint(with_generator, x, use_reentrant=False),
    "other random numbers": lambda x: checkpoint(torch.dropout, x, 0.5, True, use_reentrant=False, preserve_rng_state=False),
    "a function of autograd": lambda x: checkpoint(Same.apply, x, use_reentrant=False),
    "what autograd saved is written": lambda x: checkpoint(in_place, x, use_reentrant=False).mul_(2),
    "state that stays changed": leaves_grad_mode_off,
    "a break": lambda x: checkpoint(lambda y: (framejit.graph_break(), y.sin())[1], x, use_reentrant=False),
}


@pytest.mark.parametrize("what", BREAKS)
def test_the_call_is_eagers_where_the_function_may_not_run_twice(what):
    """Gradients of dropout that draws anew are its own affair: of that one the forward alone is compared."""

    def run(fn):
        torch.manual_seed(0)
        GENERATOR.manual_seed(0)
        NORM.reset_running_stats(), TOTAL.zero_()
        leaf = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        result = fn(leaf).cos()
        (gradient,) = torch.autograd.grad(result.sum(), leaf)
        return [result, gradient, NORM.running_mean.clone(), NORM.num_batches_tracked.clone(), TOTAL.clone()]

    def f(x):
        return BREAKS[what](x.sin())

    compiled = framejit.to_static(f)
    with counts.counting() as counted:
        results = [run(compiled) for _ in range(3)]
    assert counted.break_reasons.get("Recomputation") == 1, counted.break_reasons
    assert counted.graphs >= 1
    for result in results:
        assert all(torch.equal(a, b) for a, b in zip(run(f), result))


@pytest.mark.runs_once("eager's torch.cond starts Dynamo, which follows the branch as well")
def test_a_branch_inside_may_not_set_grad_mode():
    """It is followed whether it runs or not. An error is asked for, since eager's torch.cond would start Dynamo."""

    def branch(x):
        torch.set_grad_enabled(False)
        return x * 2

    def inside(x):
        with torch.no_grad():
            y = torch.cond(x.sum() > 10, branch, torch.neg, (x,))
        return x.sin() + y

    compiled = framejit.to_static(lambda x: checkpoint(inside, x, use_reentrant=False), full_graph=True)
    with pytest.raises(framejit.GraphBreakError, match="_set_grad_enabled is called"):
        compiled(torch.ones(3, requires_grad=True))


def test_what_the_function_raises():
    def wrong(x):
        raise ValueError("no")

    def f(x):
        try:
            return checkpoint(wrong, x.sin(), use_reentrant=False)
        except ValueError as error:
            return x * len(str(error))

    check(f, torch.ones(3, requires_grad=True), graphs=at_least(1), breaks=None)


def test_an_input_written_before_the_backward():
    """Eager computes with what is there then, and gives gradients of another function. Here it is an error."""
    compiled = framejit.to_static(lambda x: checkpoint(lambda y: (y @ WEIGHT).sin().exp(), x, use_reentrant=False))
    x = torch.ones(20000, 3)
    loss = compiled(x).sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_sequential_training():
    layers = model()
    check(lambda x: checkpoint_sequential(layers, 2, x, use_reentrant=False) * 2, after=gradients_of(layers))


@pytest.mark.parametrize("options", [
    dict(use_reentrant=True), dict(use_reentrant=False, debug=True),
    dict(use_reentrant=False, context_fn=lambda: noop_context_fn())], ids=["reentrant", "debug", "context"])  # fmt: skip
def test_other_ways_without_gradients_are_eagers(options):
    with torch.no_grad(), counts.counting() as counted:
        check(lambda x: checkpoint(logged, x * 2, **options) + 1, graphs=at_least(1), breaks=1, warm=False)
    assert counted.break_reasons == {"Recomputation": 1}
