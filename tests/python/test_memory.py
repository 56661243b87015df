"""What calls hold of memory, beside eager."""

import pytest
import torch
from torch import nn

import framejit


def peak(run):
    """The most bytes of tensors that a call holds beyond what was there before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    start = "start_ns" if hasattr(events[0], "start_ns") else "start_us"
    held = most = 0
    for event in sorted(events, key=lambda event: getattr(event, start)()):
        held += event.nbytes()
        most = max(most, held)
    return most


class Deep(nn.Module):
    """Its saved tensors are large beside its parameters and gradients."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x


@pytest.mark.parametrize("backend", ["aten", "native"])
def test_a_backward_frees_what_it_has_used(backend):
    model, x = Deep(), torch.randn(2048, 16)
    compiled = framejit.to_static(model, backend=backend)

    def step(fn):
        model.zero_grad()
        fn(x).sum().backward()

    step(model), step(compiled), step(compiled)
    saved = 12 * x.nbytes
    assert peak(lambda: step(model)) >= saved
    assert peak(lambda: step(compiled)) <= peak(lambda: step(model)) + x.nbytes
    assert framejit.stats()["hits"] >= 2


def test_a_retained_graph_runs_again_and_the_last_run_releases_it():
    model, x = Deep(), torch.randn(8, 16, requires_grad=True)
    loss = framejit.to_static(model)(x).sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    again = torch.autograd.grad(loss, x)[0]
    torch.testing.assert_close(first, torch.autograd.grad(model(x).sum(), x)[0])
    assert torch.equal(first, again)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, x)
