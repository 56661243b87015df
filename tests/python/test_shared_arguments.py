"""Entries captured for tensors that are apart, called with tensors that are one, share memory, or share their version."""

import pytest
import torch

import framejit


def leaf(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes) + sizes[0]), requires_grad=True)


def outcome(run):
    """What it gives, or the first words of what it raises."""
    try:
        return run()
    except RuntimeError as error:
        return str(error)[:60]


def bits(value):
    return value.detach().numpy().tobytes() if isinstance(value, torch.Tensor) else value


def captured_apart(fn, *arguments):
    """`fn` compiled and run twice for these arguments, from its graph."""
    compiled = framejit.to_static(fn)
    for _ in range(2):
        compiled(*arguments)
    assert compiled.graphs
    return compiled


# ---- leaves that become one ----


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = x
        for _ in range(3):
            y = torch.tanh(self.second(torch.relu(self.first(y))))
        return y


def gradients_when_tied(compiled, seed):
    torch.manual_seed(seed)
    model = Tied()
    if compiled:
        framejit.to_static(model)
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
    model.second.weight = model.first.weight
    model.zero_grad()
    torch.manual_seed(seed + 1)
    model(torch.randn(4, 8)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("seed", range(4))
def test_weights_tied_after_the_capture_sum_their_gradients_as_eager(seed):
    expected, got = gradients_when_tied(False, seed), gradients_when_tied(True, seed)
    assert [bits(gradient) for gradient in got] == [bits(gradient) for gradient in expected]


def test_two_arguments_that_become_one():
    def fn(a, b):
        return (a * 3.3).sin() * b + a * 1.7 + b.exp() * a

    compiled = captured_apart(fn, leaf(64), leaf(64))
    entries = compiled.cache_info().entries
    expected, got = leaf(64), leaf(64)
    fn(expected, expected).sum().backward()
    compiled(got, got).sum().backward()
    assert bits(got.grad) == bits(expected.grad)
    assert compiled.cache_info().entries == entries + 1


def test_that_leaves_are_distinct_is_not_asked_without_a_history():
    compiled = captured_apart(lambda a, b: a * b, leaf(4).detach(), leaf(4).detach())
    one = torch.ones(4)
    entries = compiled.cache_info().entries
    compiled(one, one)
    assert compiled.cache_info().entries == entries


# ---- memory that is shared ----


def write_beside_a_product(weight, x, y):
    out = weight * x
    y.add_(1)
    return out


SHARED = {
    "a detached alias": lambda x: x.detach(),
    "a view": lambda x: x[1:],
    "another view of the same base": lambda x: x,
    "data": lambda x: x.data,
    "memory of another library": lambda x: torch.from_numpy(x.numpy()),
}


def gradient_after_shared_write(fn, share):
    base = torch.arange(4.0)
    weight = leaf(4)
    x = base.view(4)
    result = fn(weight, x, share(x) if share is not SHARED["another view of the same base"] else base[2:])
    return outcome(lambda: torch.autograd.grad(result.sum(), weight)[0]), base


@pytest.mark.parametrize("name", SHARED)
def test_what_the_backward_needs_is_written_through_another_argument(name):
    compiled = captured_apart(write_beside_a_product, leaf(4), torch.ones(4), torch.zeros(4))
    expected, written = gradient_after_shared_write(write_beside_a_product, SHARED[name])
    got, written_too = gradient_after_shared_write(compiled, SHARED[name])
    assert bits(got) == bits(expected)
    assert bits(written_too) == bits(written)


def test_calls_with_tensors_apart_run_the_graph_again():
    compiled = captured_apart(write_beside_a_product, leaf(4), torch.ones(4), torch.zeros(4))
    x = torch.ones(4)
    compiled(leaf(4), x, x.detach())
    y = torch.zeros(4)
    hits = compiled.cache_info().hits
    # torch has a class of Python for each of its own operations.
    assert type(compiled(leaf(4), torch.ones(4), y).grad_fn).__name__ == "CppFunction"
    assert compiled.cache_info().hits > hits and y.tolist() == [1.0] * 4


# ---- memory that overlaps, where eager raises ----


def handles_overlap(x, y, said):
    out = x * 2
    try:
        x.add_(y)
    except RuntimeError as error:
        said.append(str(error)[:40])
        out = out - 1
    return out


def counts_before_overlap(x, y, said):
    said.append("before")
    x.mul_(y)
    said.append("after")
    return x


@pytest.mark.parametrize("fn", [handles_overlap, counts_before_overlap])
@pytest.mark.parametrize("backend", ["aten", "native"])
def test_an_overlap_at_a_later_call_is_the_program_s_to_handle(fn, backend):
    compiled = framejit.to_static(fn, backend=backend)
    for _ in range(2):
        compiled(torch.ones(4), torch.ones(4), [])
    assert compiled.graphs
    results = []
    for function in (fn, compiled):
        base, said = torch.arange(5.0), []
        results.append((bits(outcome(lambda f=function, b=base, s=said: f(b[1:], b[:-1], s))), said, base.tolist()))
    assert results[1] == results[0]


# ---- numbers that are computed before writes ----


def number_of_what_is_written(x, other):
    other.mul_(0.75)
    number = x.mean().item()
    return x * number - 3 / number


def number_that_a_write_is_for(x, other):
    before = x.clone()
    other.add_(1)
    scale = 1 / other.sum().item()
    return before * scale, x * 2


@pytest.mark.parametrize("backend", ["aten", "native"])
@pytest.mark.parametrize("fn", [number_of_what_is_written, number_that_a_write_is_for])
@pytest.mark.parametrize("shared", [(False, True, False, True), (True, False, True)], ids=str)
def test_numbers_of_tensors_that_share_memory_in_some_calls(fn, shared, backend):
    compiled = framejit.to_static(fn, backend=backend)
    for is_shared in shared:
        tensors = [torch.tensor([1.0, 2.0, 3.0, 6.0]) for _ in range(2)]
        others = [tensor.detach() if is_shared else tensor.clone() for tensor in tensors]
        expected, got = fn(tensors[0], others[0]), compiled(tensors[1], others[1])
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close([tensors[1], others[1]], [tensors[0], others[0]])
    assert compiled.cache_info().hits and len(compiled.graphs) == 1


# ---- memory that overlaps as eager allows it ----


def halves(t, said):
    t.mul_(0.5)
    said.append("halved")
    return t


def scale_in_place(x, y, said):
    halves(x, said)
    out = (x + y).sin()
    return [breaks_behind(out, k) for k in range(2)]


def breaks_behind(t, k):
    t = t.cos() + k
    framejit.graph_break()
    return t.tanh()


@pytest.mark.parametrize("backend", ["aten", "native"])
def test_captures_end_where_a_written_argument_shares_its_memory_in_each_call(backend):
    compiled = framejit.to_static(scale_in_place, backend=backend)
    captures = []
    for call in range(3):
        results = []
        for function in (scale_in_place, compiled):
            base, said = torch.arange(4.0) + call, []
            before = framejit._C.stats()["captures"]
            results.append(([bits(out) for out in function(base, base.detach(), said)], said, bits(base)))
        captures.append(framejit._C.stats()["captures"] - before)
        assert results[1] == results[0]
    assert captures[0] > 0 and captures[1:] == [0, 0]
