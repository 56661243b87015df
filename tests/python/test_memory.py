"""What calls hold of memory, beside eager."""

import pytest
import torch
from torch import nn

import framejit
from support.native import peak_memory


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
    assert peak_memory(lambda: step(model)) >= saved
    assert peak_memory(lambda: step(compiled)) <= peak_memory(lambda: step(model)) + x.nbytes
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


def test_a_run_that_fails_before_it_begins_releases_nothing():
    """A gradient that only a second derivative's way takes fails here; the graph is retained by the next run."""
    compiled = framejit.to_static(lambda x: torch.nn.functional.dropout(x, 0.5) * x)
    x = torch.ones(4, requires_grad=True)
    y = compiled(x)
    negative = torch.full((4,), 1 - 1j).conj().imag
    assert negative.is_neg()
    with pytest.raises(RuntimeError, match="draws random numbers"):
        torch.autograd.grad(y, x, negative)
    first = torch.autograd.grad(y, x, torch.ones(4), retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(y, x, torch.ones(4))[0])
