"""What calls hold of memory, beside eager."""

import copy

import pytest
import torch
from torch import nn

import framejit
from support.native import needs_kernels, peak_memory


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


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)
        self.shift = nn.Parameter(torch.zeros(64))  # no formula of eager's reads it

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x) + self.shift)))


def _gradients(model, x, between=lambda: None):
    model.zero_grad()
    loss = model(x).square().mean()
    between()
    loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@needs_kernels
def test_kernels_compute_again_what_they_made_rather_than_that_it_is_saved():
    model, x = nn.Sequential(*[Block() for _ in range(4)]), torch.randn(512, 64)
    compiled = framejit.to_static(copy.deepcopy(model), backend="native")
    for _ in range(2):
        for found, expected in zip(_gradients(compiled, x), _gradients(model, x)):
            torch.testing.assert_close(found, expected)
    assert framejit.stats()["breaks"] == 0 and framejit.stats()["hits"] >= 1
    # The sums and gelu's results: five times the size of `x` in each block, less what is there while it is used.
    saved = (4 * 5 - 5) * x.nbytes
    assert peak_memory(lambda: _gradients(compiled, x)) <= peak_memory(lambda: _gradients(model, x)) - saved


@needs_kernels
def test_what_is_computed_again_is_what_it_was():
    """Parameters that eager's backward does not read may be written before it runs."""
    model, x = nn.Sequential(Block(), Block()), torch.randn(512, 64)
    models = [model, framejit.to_static(copy.deepcopy(model), backend="native")]
    gradients = []
    for each in models:

        def write(each=each):
            with torch.no_grad():
                each[0].shift.add_(1)
                each[1].shift.sub_(0.5)

        gradients.append(_gradients(each, x, write) + _gradients(each, x))
    for found, expected in zip(gradients[1], gradients[0]):
        torch.testing.assert_close(found, expected)


@needs_kernels
def test_what_eager_saves_may_not_be_written_either():
    model, x = Block(), torch.randn(512, 64)
    for each in (model, framejit.to_static(copy.deepcopy(model), backend="native")):

        def write(each=each):
            with torch.no_grad():
                each.norm.weight.add_(1)

        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            _gradients(each, x, write)


@needs_kernels
def test_second_derivatives_and_retained_graphs_beside_what_is_computed_again():
    model, x = Block(), torch.randn(512, 64)
    compiled = framejit.to_static(copy.deepcopy(model), backend="native")
    found = []
    for each in (model, compiled):
        leaf = x.clone().requires_grad_()
        loss = each(leaf).square().mean()
        first = torch.autograd.grad(loss, leaf, retain_graph=True)[0]
        again = torch.autograd.grad(loss, leaf, create_graph=True)[0]
        second = torch.autograd.grad(again.square().sum(), leaf)[0]
        found.append((first, again, second))
    stats = framejit.stats()
    assert (stats["graphs"], stats["breaks"], stats["fallbacks"]) == (1, 0, 0)
    for one, other in zip(*found):
        torch.testing.assert_close(other, one)


def _convolutions(activation, count=4):
    layers = []
    for _ in range(count):
        layers += [nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), activation()]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(_convolutions(lambda: nn.ReLU(inplace=True), 2)[:-1] for _ in range(4))
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        for block in self.blocks:
            identity = x
            x = block(x)
            x += identity
            x = self.activation(x)
        return x


def _checked(model, x, whole=False):
    """Peaks of a step of training, eager's and framejit's, whose gradients and statistics are eager's.

    whole  the step is one compiled function, rather than its forward
    """
    model = model.double()
    twin = copy.deepcopy(model)

    def step_of(model, forward):
        def step():
            model.zero_grad(set_to_none=True)
            forward(x).square().mean().backward()

        return step

    if whole:
        steps = step_of(model, model), framejit.to_static(step_of(twin, twin), backend="native")
    else:
        steps = step_of(model, model), step_of(twin, framejit.to_static(lambda x: twin(x), backend="native"))
    for step in steps:
        step(), step(), step()
    for (name, one), other in zip(model.named_parameters(), twin.parameters()):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-9, atol=1e-11, msg=name)
    for one, other in zip(model.buffers(), twin.buffers()):
        torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)
    captures = 1 + whole  # without gradients that are there, and with them
    stats = framejit.stats()
    assert stats["captures"] == captures and stats["breaks"] == 0 and stats["hits"] == 3 - captures
    return [peak_memory(step) for step in steps]


IMAGES = (4, 8, 32, 32)


@needs_kernels
@pytest.mark.parametrize(("activation", "less"), [(nn.ReLU, 1.9), (nn.Hardswish, 3.9), (nn.SiLU, 3.9)])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_of_convolution_norm_and_activation_the_first_is_kept(activation, inplace, less, whole):
    torch.manual_seed(0)
    x = torch.randn(IMAGES, dtype=torch.float64)
    eager, native = _checked(_convolutions(lambda: activation(inplace=inplace)), x, whole)
    saved = x.numel() * 8
    assert native <= eager - less * saved, (native / saved, eager / saved)


@needs_kernels
@pytest.mark.parametrize("whole", [False, True])
def test_of_residual_blocks_half_the_sums_are_kept(whole):
    torch.manual_seed(0)
    x = torch.randn(IMAGES, dtype=torch.float64)
    eager, native = _checked(Residual(), x, whole)
    saved = x.numel() * 8
    assert native <= eager - 4 * saved, (native / saved, eager / saved)


@needs_kernels
def test_the_input_of_a_layer_is_free_before_the_gradient_of_it_is_there():
    torch.manual_seed(0)
    x = torch.randn(256, 256, dtype=torch.float64)
    layers = [nn.Linear(256, 256, bias=False) for _ in range(4)]
    eager, native = _checked(nn.Sequential(*layers, nn.Linear(256, 1, bias=False)), x)
    saved = x.numel() * 8
    assert native <= eager - 0.9 * saved, (native / saved, eager / saved)

