"""torch.utils.checkpoint in captured code: a plain call without gradients, left to the interpreter with them."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, noop_context_fn

import framejit
from support import counts
from support.counts import at_least
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


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_training_is_eager_at_the_call_with_graphs_on_both_sides(use_reentrant):
    module = Checkpointed(use_reentrant)

    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    check(lambda x: module(x), after=after, graphs=2, breaks=1)
    report = framejit.explain(module, torch.ones(2, 3))
    assert report.stats["break_reasons"] == {"Recomputation": 1}


@pytest.mark.runs_once("what both runs save is counted")
def test_what_is_saved_is_what_eager_saves():
    """The break keeps what checkpointing is for: what lies inside is computed again, not kept."""
    module = Checkpointed(False)

    def saved(run):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: sizes.append(tensor.numel()) or tensor, lambda t: t):
            run(torch.ones(2, 3))
        return sum(sizes)

    plain = nn.Sequential(module.first, module.second)
    compiled = framejit.to_static(lambda x: checkpoint(module.second, module.first(x), use_reentrant=False))
    compiled(torch.ones(2, 3)).sum().backward()
    assert saved(lambda x: compiled(x)) < saved(lambda x: plain(x))


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


def test_sequential_training():
    layers = model()

    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in layers.parameters()]

    check(lambda x: checkpoint_sequential(layers, 2, x, use_reentrant=False) * 2,
          after=after, graphs=at_least(1), breaks=at_least(1), warm=False)  # fmt: skip


@pytest.mark.parametrize("options", [
    dict(use_reentrant=True), dict(use_reentrant=False, debug=True),
    dict(use_reentrant=False, context_fn=lambda: noop_context_fn())], ids=["reentrant", "debug", "context"])  # fmt: skip
def test_other_ways_without_gradients_are_eagers(options):
    with torch.no_grad(), counts.counting() as counted:
        check(lambda x: checkpoint(logged, x * 2, **options) + 1, graphs=at_least(1), breaks=1, warm=False)
    assert counted.break_reasons == {"Recomputation": 1}
