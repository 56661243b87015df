"""What the back end native does not compute: what nobody reads, and what is there already (graph/passes/dce.h, cse.h)."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import framejit

FEW = 64  # elements: no kernel runs for one operator over so few, so the profiler sees LibTorch's


def operators(run, *given):
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        run(*given)
    return [event.name for event in profiled.events()]


def computed(program, *given):
    """The operators of a warm call, whose results are eager's."""
    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    expected = program(*given)
    for _ in range(2):
        torch.testing.assert_close(compiled(*given), expected)
    names = operators(compiled, *given)
    assert framejit.stats()["graphs"] == 1
    return names


pytestmark = pytest.mark.runs_once("the profiler would see the shadow's eager run")


def test_what_nobody_reads():
    def program(x):
        unused = x.argsort()
        unused[0] = 1
        return x.cumsum(0)

    names = computed(program, torch.randn(FEW))
    assert "aten::cumsum" in names and "aten::argsort" not in names and "aten::sort" not in names


def test_a_write_that_somebody_reads():
    def program(x, seen):
        seen.copy_(x.cumsum(0))
        return x.cumprod(0)

    x, seen = torch.rand(FEW), torch.empty(FEW)
    assert "aten::cumsum" in computed(program, x, seen)
    torch.testing.assert_close(seen, x.cumsum(0))


def test_what_is_there_already():
    def layer(x):
        mask = torch.ones(FEW, FEW, dtype=torch.bool).tril()
        return x * mask.sum(0).cumsum(0)

    names = computed(lambda x: layer(layer(layer(x))), torch.randn(FEW))
    assert names.count("aten::tril") == 1 and names.count("aten::cumsum") == 1


def test_results_are_two_tensors():
    def program(x):
        return x.cumsum(0), x.cumsum(0)

    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    for _ in range(3):
        a, b = compiled(torch.ones(FEW))
        a.add_(1)
        assert torch.equal(b, torch.ones(FEW).cumsum(0))
    assert framejit.stats()["graphs"] == 1


def test_what_has_changed_between():
    def program(x):
        before = x.cumsum(0)
        x.add_(1)
        return before + x.cumsum(0)

    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(FEW)), program(torch.ones(FEW)))
    assert framejit.stats()["graphs"] == 1


def test_what_may_have_changed_between():
    """Two inputs over one memory."""

    def program(x, y):
        before = x.cumsum(0)
        y.add_(1)
        return before + x.cumsum(0)

    framejit.reset()
    compiled = framejit.to_static(program, backend="native")
    for _ in range(3):
        compiled(torch.ones(FEW), torch.ones(FEW))
        memory = torch.ones(FEW)
        expected = torch.ones(FEW)
        assert torch.equal(compiled(memory, memory.view(FEW)), program(expected, expected.view(FEW)))
    assert framejit.stats()["graphs"] >= 1


@pytest.mark.parametrize("reduce", [torch.cumsum, torch.logcumsumexp])
def test_gradients(reduce):
    def program(x, w):
        unused = (w * 3).logcumsumexp(0)
        one, other = reduce(x * w, 0), reduce(x * w, 0)
        return (one * other).sum(), unused.detach()

    framejit.reset()
    compiled = framejit.to_static(program, backend="native", full_graph=True)
    gradients = []
    for run in (program, compiled, compiled):
        x, w = (torch.linspace(0.5, 1.5, FEW).requires_grad_() for _ in range(2))
        result, _ = run(x, w)
        result.backward()
        gradients.append((result.detach(), x.grad, w.grad))
    for ours in gradients[1:]:
        for a, b in zip(ours, gradients[0]):
            torch.testing.assert_close(a, b)
    assert framejit.stats()["graphs"] == 1


def test_what_raises_is_there():
    def program(x, index):
        x[index]
        return x.cumsum(0)

    framejit.reset()
    compiled = framejit.to_static(program, backend="native")
    for _ in range(2):
        compiled(torch.ones(FEW), torch.tensor([3]))
    for run in (program, compiled):
        with pytest.raises(IndexError):
            run(torch.ones(FEW), torch.tensor([FEW]))
    assert framejit.stats()["graphs"] >= 1
