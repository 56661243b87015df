"""Masks of dropout as booleans (graph/passes/drawn_masks.h): the same numbers and gradients, in a quarter of the bytes."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

import framejit

ROWS = 512  # of as many: 1 MiB of f32


def masks_drawn():
    return framejit._C.kernel_stats()["masks"]


def outcome(run, *given):
    """Results, gradients, and the generator's state behind them."""
    torch.manual_seed(3)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in given]
    result = run(*leaves)
    if result.requires_grad:
        result.sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves), torch.get_rng_state()]


def masks_of(program, *given, exact=True, full_graph=True):
    """How many a graph draws as booleans, whose results and gradients are eager's."""
    framejit.reset()
    before = masks_drawn()
    compiled = framejit.to_static(program, backend="native", full_graph=full_graph)
    expected = outcome(program, *given)
    for _ in range(3):
        for ours, eager in zip(outcome(compiled, *given), expected):
            if exact:
                assert torch.equal(ours, eager)
            else:
                torch.testing.assert_close(ours, eager)
    assert framejit.stats()["graphs"] == 1
    return masks_drawn() - before


def data():
    return torch.linspace(-1, 1, ROWS * ROWS).view(ROWS, ROWS)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.37])
def test_dropout(p):
    assert masks_of(lambda x: F.dropout(x, p) * 3, data()) == 1


def test_dropout_of_what_is_computed():
    def program(x, y):
        hidden = F.dropout(torch.relu(x + y), 0.2)
        return F.dropout(hidden * y, 0.3) + hidden

    assert masks_of(program, data(), data().flip(0)) == 2


def test_dropout_in_place():
    assert masks_of(lambda x: F.dropout(x * 2, 0.2, inplace=True) + 1, data()) == 1


def test_attention():
    def program(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)

    given = [torch.randn(2, 2, 256, 16, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    assert masks_of(program, *given, exact=False) == 1


def test_a_transposed_tensor():
    assert masks_of(lambda x: F.dropout(x.t(), 0.2) * 2, data()) == 1


def test_a_mask_that_the_program_sees():
    masks = []

    def program(x):
        mask = torch.empty_like(x).bernoulli_(0.8).div_(0.8)
        masks.append(mask)
        return x * mask

    assert masks_of(program, data(), full_graph=False) == 0
    assert all(mask.dtype == torch.float32 and torch.equal(mask, masks[0]) for mask in masks)


def test_a_mask_that_is_written_again():
    def program(x):
        mask = torch.empty_like(x).bernoulli_(0.8).div_(0.8)
        y = x.detach() * mask
        mask.add_(1)
        return y + x * mask

    assert masks_of(program, data(), exact=False) == 0


def test_a_mask_that_is_read_before_it_is_divided():
    def program(x):
        mask = torch.empty_like(x).bernoulli_(0.8)
        kept = mask.sum()
        return x * mask.div_(0.8) + kept

    assert masks_of(program, data(), exact=False) == 0


@pytest.mark.parametrize("number", [-0.8, 0.0])
def test_a_divisor_that_leaves_more_than_zeros(number):
    def program(x):
        return torch.signbit(x.detach() * torch.empty_like(x).bernoulli_(0.5).div_(number)) * x

    assert masks_of(program, data()) == 0


def test_another_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        assert masks_of(lambda x: F.dropout(x, 0.2) * 3, data().float()) == 0
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype):
    assert masks_of(lambda x: F.dropout(x, 0.2) * 3, data().to(dtype), exact=False) == 0


def test_a_second_backward():
    def program(x):
        return F.dropout(x * x, 0.2).sum()

    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    gradients = []
    for run in (program, compiled, compiled):
        torch.manual_seed(4)
        x = data().requires_grad_()
        result = run(x)
        result.backward(retain_graph=True)
        result.backward()
        gradients.append(x.grad)
    assert torch.equal(gradients[1], gradients[0]) and torch.equal(gradients[2], gradients[0])


def test_a_step_as_one_function():
    weight = torch.nn.Parameter(torch.eye(ROWS))

    def step(x):
        weight.grad = None
        loss = F.dropout(torch.tanh(x @ weight), 0.3).pow(2).sum()
        loss.backward()
        return loss.detach(), weight.grad

    framejit.reset()
    before = masks_drawn()
    compiled, results = framejit.to_static(step, backend="native"), []
    for run in (step, compiled, compiled):
        torch.manual_seed(6)
        results.append([*run(data()), torch.get_rng_state()])
    for result in results[1:]:
        for ours, eager in zip(result, results[0]):
            torch.testing.assert_close(ours, eager)
    assert framejit.stats()["graphs"] == 1 and masks_drawn() == before + 1


def held(run):
    """Bytes of tensors that a forward leaves alive."""
    x = data().requires_grad_()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = run(x)
    assert result.requires_grad
    return sum(event.self_cpu_memory_usage for event in profiled.key_averages())


@pytest.mark.runs_once("the shadow's eager run allocates as well")
def test_what_a_forward_keeps():
    def program(x):
        return F.dropout(x, 0.2).sin().sum()

    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    compiled(data().requires_grad_()).backward()
    assert framejit.stats()["graphs"] == 1
    result, read_by_sin = 4, 4 * ROWS * ROWS
    assert held(program) == result + read_by_sin + 4 * ROWS * ROWS
    assert held(compiled) == result + read_by_sin + ROWS * ROWS
