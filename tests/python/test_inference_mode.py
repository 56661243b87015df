"""Inference mode and the default dtype, changed inside of captured functions: what is made under them is eager's."""

import copy
import pickle

import pytest
import torch
from torch import nn

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

NET = nn.Linear(3, 2)


def x23():
    return torch.arange(6.0).reshape(2, 3)


def kinds(results):
    return [t.is_inference() for t in results if isinstance(t, torch.Tensor)]


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x23(),)), after=kinds, **options)


@torch.inference_mode()
def decorated(x):
    return NET(x)


def with_manager(x):
    with torch.inference_mode():
        y = x * 2
        told = y.is_inference(), torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y.requires_grad
    return y, x + 1, told, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def views(x):
    y = x * 2
    with torch.inference_mode():
        return x.view(-1), y.t(), y, (x * 3).view(3, 2), x.detach(), x.is_inference()


def views_outside(x):
    with torch.inference_mode():
        y = x * 2
    return y.view(-1), y[0], y.is_inference(), y.t().is_inference(), y + 1, (y + 1).is_inference()


def nested(x):
    with torch.inference_mode():
        a = x * 2
        with torch.inference_mode(False):
            b = x * 3
            with torch.enable_grad():
                c = x.t()
        d = x * 4
    return a, b, c, d


def with_grad_mode(x):
    with torch.inference_mode():
        torch.set_grad_enabled(True)
        y = x * 2
    return y, x * 3, torch.is_grad_enabled()


def writes(x):
    y = x * 2
    with torch.inference_mode():
        y.add_(1)
        x.add_(1)
        z = y * 2
        z.mul_(3)
    return x, y, z


def makes(x):
    with torch.inference_mode():
        return torch.tensor([1.0, 2.0]), torch.zeros(2), torch.ones(2, 3) + x, torch.rand(2)


def raises_inside(x):
    try:
        with torch.inference_mode():
            y = x * 2
            raise ValueError
    except ValueError:
        return y, x + 1


ONE_GRAPH = [
    lambda x: (decorated(x), NET(x)), with_manager, views, views_outside, nested, with_grad_mode, writes, makes,
    raises_inside,
]  # fmt: skip


@pytest.mark.parametrize("fn", ONE_GRAPH, ids=lambda fn: fn.__name__)
def test_is_one_graph(fn):
    check(fn)


def test_gradients_beside_it():
    def f(x):
        with torch.inference_mode():
            scale = x.abs().max()
            kept = scale.is_inference()
        return x * 2, scale, kept

    def after(results):
        results[0].sum().backward()
        return kinds(results), results[1].requires_grad

    assert_same_as_eager(f, make=lambda: ((x23().requires_grad_(),), {}), after=after, breaks=None)


@pytest.mark.parametrize("write", [False, True])
def test_what_autograd_refuses(write):
    def f(x, w):
        with torch.inference_mode():
            y = x * 2
        return y.add_(1) if write else y * w

    w = torch.ones(3, requires_grad=True)
    assert_same_as_eager(f, x23(), w, raises=RuntimeError, graphs=None, breaks=None, fallbacks=None, warm=False)


def test_a_break_inside_is_before_it():
    def f(x):
        y = x + 1
        with torch.inference_mode():
            z = y * 2
            framejit.graph_break()
            z = z * 3
        return y, z, y + z

    check(f, graphs=counts.at_least(2), breaks=counts.at_least(1), cold_runs=2)


def test_left_where_another_segment_entered_it():
    def f(x):
        context = torch.inference_mode()
        context.__enter__()
        framejit.graph_break()
        y = x * 2
        context.__exit__(None, None, None)
        return y, x + 1

    check(f, graphs=None, breaks=None, cold_runs=2)


def test_arguments_of_either_kind():
    def f(x):
        return x.is_inference(), x.view(-1), x.view(-1).is_inference(), x + 1

    compiled = framejit.to_static(f)
    with torch.inference_mode():
        made = x23()
    for mode in (False, True):
        for x in (made, x23(), made):
            with torch.inference_mode(mode):
                got, expected = compiled(x), f(x)
            assert kinds(got) == kinds(expected) and (got[0], got[2]) == (expected[0], expected[2])


# The default dtype


@pytest.fixture(autouse=True)
def float32_again():
    yield
    torch.set_default_dtype(torch.float32)


def restored(x):
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = torch.zeros(3), torch.arange(3) / 2, torch.tensor(1.5), torch.get_default_dtype()
    finally:
        torch.set_default_dtype(previous)
    return (*made, torch.ones(2), torch.arange(3) / 2, torch.get_default_dtype(), x + 1)


def test_default_dtype_is_restored():
    assert_same_as_eager(restored, x23())


def test_default_dtype_is_left():
    def f(x):
        torch.set_default_dtype(torch.float64)
        return torch.zeros(3), x + 1

    assert_same_as_eager(f, x23())


def test_default_dtype_before_an_exception():
    def f(x):
        torch.set_default_dtype(torch.float64)
        made = torch.zeros(3)
        if x.shape[0] == 2:
            raise ValueError(str(made.dtype))

    assert_same_as_eager(f, x23(), raises=ValueError, graphs=None, breaks=None)


def test_default_dtype_where_an_operator_fails():
    def f(x, i):
        torch.set_default_dtype(torch.float64)
        y = x[i]
        torch.set_default_dtype(torch.float32)
        return y

    compiled = framejit.to_static(f)
    assert torch.equal(compiled(x23(), torch.tensor([1])), x23()[1:])
    with pytest.raises(IndexError):
        compiled(x23(), torch.tensor([7]))
    assert torch.get_default_dtype() is torch.float64


@pytest.mark.parametrize("wrong", [torch.int64, 3])
def test_default_dtype_that_torch_refuses(wrong):
    def f(x):
        y = x + 1
        torch.set_default_dtype(wrong)
        return y

    assert_same_as_eager(f, x23(), raises=TypeError, graphs=None, breaks=None)


# The graph by itself


def changes_inference_mode(x):
    y = x + 1
    with torch.inference_mode():
        z = y.detach() * 2
        w = torch.ones(3)
    return z, w, torch.ones(2)


def changes_default_dtype(x):
    unused = x * 3
    with torch.inference_mode():
        before = torch.ones(2) / 2
    torch.set_default_dtype(torch.float64)
    made = torch.zeros(3), torch.arange(3) / 2
    torch.set_default_dtype(torch.float32)
    del unused
    return (before, *made, torch.ones(2), torch.arange(3) / 2, x + 1)


def leaves_default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return torch.arange(3) / 2, x + 1


COPIES = {
    "itself": lambda graph: graph,
    "copied": copy.copy,
    "pickled": lambda graph: pickle.loads(pickle.dumps(graph)),
    "parsed": lambda graph: framejit.Graph.parse(str(graph), graph.constants),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("function", [changes_inference_mode, changes_default_dtype, leaves_default_dtype])
def test_a_copy_of_the_graph_does_the_same(function, copied):
    compiled, x = framejit.to_static(function), x23()[0]
    expected = function(x)
    torch.set_default_dtype(torch.float32)
    compiled(x)
    torch.set_default_dtype(torch.float32)
    (captured,) = compiled.graphs
    graph = COPIES[copied](captured.graph())
    graph.verify()
    assert graph.same_as(captured.graph()) and "  under(" in str(graph)
    got = framejit.Executor(graph)(x)
    assert torch.get_default_dtype() is torch.float32 and kinds(got) == kinds(expected)
    assert [made.dtype for made in got] == [made.dtype for made in expected] and all(map(torch.equal, got, expected))
    with pytest.raises(framejit.GraphError, match="to_fx: .* which torch.fx cannot say"):
        graph.to_fx()
    with pytest.raises(framejit.GraphError, match="which torch.fx cannot say"):
        framejit.Graph.parse(str(graph), graph.constants).to_fx()


def test_the_graph_keeps_the_default_dtype_of_its_capture():
    def f(x):
        return torch.zeros(3) + x, torch.arange(3) / 2

    compiled, x = framejit.to_static(f), x23()[0]
    expected = compiled(x)
    graph = compiled.graphs[0].graph()
    assert "  under(default_dtype=f32)\n" in str(graph)
    for copied in COPIES.values():
        torch.set_default_dtype(torch.float64)
        copied(graph).verify()
        got = framejit.Executor(copied(graph))(x)
        torch.set_default_dtype(torch.float32)
        assert [made.dtype for made in got] == [made.dtype for made in expected] and all(
            map(torch.equal, got, expected)
        )
    torch.testing.assert_close(tuple(graph.to_fx()(x)), expected)


def test_a_graph_that_asks_for_no_default_dtype_says_nothing_of_it():
    compiled = framejit.to_static(lambda x: (x * 2).relu().sum(-1))
    compiled(x23())
    assert "under" not in str(compiled.graphs[0].graph())


@pytest.mark.parametrize(
    "line, message",
    [
        ("under(inference=maybe)", "2:19: expected 'false', got 'maybe"),
        ("under(default_dtype=f99)", "2:23: expected a dtype, got 'f99"),
        ("under(grad=true)", "2:9: expected '.', got 'grad=true"),
    ],
)
def test_a_state_that_is_none_is_refused(line, message):
    with pytest.raises(framejit.GraphError, match=message):
        framejit.Graph.parse("graph @g () {\n  " + line + "\n  return\n}\n")
