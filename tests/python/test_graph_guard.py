"""`with framejit.graph_guard(g):`: the same function at once on real tensors, and in a graph on values."""

import copy
import pickle
import threading

import numpy as np
import pytest
import torch
from torch import nn

import framejit
from support import counts
from test_graphs import built

SEVEN, INTEGERS = torch.ones(7), torch.ones(2, 3, dtype=torch.int64)


def x23():
    return torch.arange(6.0).reshape(2, 3) / 4 - 0.5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.norm(x + self.attend(x, x, x, need_weights=False)[0])
        return y + nn.functional.gelu(self.mix(y))


def conv(x):
    weight = torch.linspace(-1, 1, 36).reshape(2, 2, 3, 3)
    y = nn.functional.conv2d(x, weight, padding=1)
    return nn.functional.max_pool2d(nn.functional.batch_norm(y, torch.zeros(2), torch.ones(2)), 2)


def loops(x):
    rows = []
    for i, row in enumerate(x):
        rows.append(row * i if len(row) > 2 else row)
    return torch.stack(rows[::-1])


def writes(x):
    y = x.clone()
    y[0, 1:] = 5
    y[:, 0] += x[:, 1]
    y.mul_(2).clamp_(max=7)
    return y, y.t(), x


def choices(x):
    mask = x > 0
    return torch.where(mask, x, -x), x.masked_fill(mask, 9.0), x[..., [0, 2]], x.topk(2).indices, x.max(1)


def makes(x):
    return torch.zeros_like(x), torch.full((2,), 3), torch.arange(4), x.new_ones(2), torch.eye(2), torch.tensor([[1, 2]])


def operators(x):
    return (2 - x) / 3 ** x, x // 0.3, x % 2, -x, abs(x), x == x.t().t(), x.T @ x, ~(x > 0), x.size(0) * x


def by_name(x):
    return torch.ops.aten.add.Tensor(x, x, alpha=2), torch.ops.aten.native_layer_norm(x, [3], None, None, 1e-5)


def transforms(x):
    return torch.func.vmap(lambda row: row / row.norm())(x), torch.func.grad(lambda y: (y ** 3).sum())(x)


def gradients(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y.sin() * y).sum(), y)


def flat(result):
    leaves = torch.utils._pytree.tree_flatten(result)[0]
    return leaves if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize(
    "fn, shape",
    [
        (Block(), (2, 5, 8)),
        (conv, (1, 2, 4, 4)),
        (loops, (2, 3)),
        (writes, (2, 3)),
        (choices, (2, 3)),
        (makes, (2, 3)),
        (operators, (2, 3)),
        (by_name, (2, 3)),
        (transforms, (2, 3)),
        (gradients, (2, 3)),
    ],
    ids=lambda item: getattr(item, "__name__", type(item).__name__ if not isinstance(item, tuple) else "shape"),
)
def test_a_function_works_both_ways(fn, shape):
    torch.manual_seed(0)
    x, again = torch.randn(shape), None
    again = x.clone()
    graph = framejit.Graph()
    value = graph.input(shape)
    with framejit.graph_guard(graph):
        graph.output(*flat(fn(value)))
    graph.verify()
    with torch.no_grad():
        expected = flat(fn(x))
        got = flat(framejit.Executor(graph)(again))
    assert graph.nodes and len(got) == len(expected)
    for one, other in zip(got, expected):
        assert torch.equal(one, other) and one.dtype == other.dtype and one.stride() == other.stride()
    assert torch.equal(x, again)
    counts.check_equal("captures", framejit.stats()["captures"], 0)


# What values are


def test_values_are_tensors_that_say_what_they_are():
    graph = framejit.Graph("f")
    x = graph.input((2, 3))
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x) and x.shape == (2, 3) and x.dtype == torch.float32
    assert x.is_contiguous() and x.device == torch.device("cpu") and not x.requires_grad and x.numel() == 6
    with framejit.graph_guard(graph):
        y = torch.relu(x).sum()
    text = "<value %2: tensor<f32, cpu> of graph @f>"
    assert repr(y) == str(y) == "{}".format(y) == text and repr([y]) == "[" + text + "]"
    assert type(y) is type(x)


def test_each_result_is_a_value_views_copies_and_parts_too():
    graph = framejit.Graph()
    x = graph.input((4, 3))
    with framejit.graph_guard(graph):
        for value in (x.t(), x.detach(), x.data, x[0], *x.unbind(), *x.chunk(2), x.view(-1), torch.ones(2), x.relu_(), x.sort()[1]):
            assert type(value) is type(x) and repr(value).startswith("<value %")


def test_values_go_into_sets_and_dictionaries_by_identity():
    graph = framejit.Graph()
    x, y = graph.input((2,)), graph.input((2,))
    with framejit.graph_guard(graph):
        z = x + y
        assert len({x, y, z, x}) == 3 and {x: 1, y: 2, z: 3}[y] == 2 and x in {x} and x not in {y, z}
        assert hash(x) == id(x)
        assert (x == y).dtype == torch.bool
    assert [node[0] for node in graph.nodes] == ["aten.add.Tensor", "aten.eq.Tensor"]


def test_the_object_of_a_value_stays_the_same_while_its_graph_is_built():
    graph = framejit.Graph()
    x = graph.input((2, 3))
    with framejit.graph_guard(graph):
        y = x.t()
        y.note = "kept"
        assert y.relu_() is y and y.add_(1).note == "kept"


def test_a_value_keeps_its_graph():
    x = framejit.Graph("kept").input((2,))
    assert repr(x) == "<value %0: tensor<2xf32, cpu> of graph @kept>"


NEED_DATA = {
    "__bool__": bool,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__index__": lambda x: [1, 2][x],
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "__array__": np.asarray,
    "__contains__": lambda x: 1.0 in x,
    "data_ptr": lambda x: x.data_ptr(),
    "untyped_storage": lambda x: x.untyped_storage(),
    "__deepcopy__": copy.deepcopy,
    "__reduce_ex__": pickle.dumps,
    "format": "{:.2f}".format,
}


@pytest.mark.parametrize("name", sorted(NEED_DATA))
def test_what_needs_data_says_so(name):
    graph = framejit.Graph("f")
    x = graph.input(())
    with framejit.graph_guard(graph):
        with pytest.raises(framejit.GraphError, match=r"needs the data of <value %0: tensor<f32, cpu> of graph @f>, which it has only when") as caught:
            NEED_DATA[name](x)
        assert name in str(caught.value)
        graph.output(x + 1)
    assert len(graph.nodes) == 1 and torch.equal(framejit.Executor(graph)(torch.tensor(1.0)), torch.tensor(2.0))


@pytest.mark.parametrize(
    "fn, message",
    [
        (lambda x: torch.is_nonzero(x.sum()), "asks for the data of a value"),
        (lambda x: x.nonzero(), "aten::nonzero returns depends on data, which is not known while graph @f is built"),
        (lambda x: x[x > 0], "returns depends on data"),
        (lambda x: torch.where(x > 0), "returns depends on data"),
        (lambda x: x.unique(), "returns depends on data"),
        (lambda x: x.masked_select(x > 0), "aten::masked_select returns depends on data"),
        (lambda x: torch.equal(x, x), "aten::equal asks for the data of a value"),
        (lambda x: x.resize_(9), "aten::resize_ changes what memory a tensor has, so graph @f cannot hold it"),
        (lambda x: setattr(x, "data", torch.ones(2)), "cannot be set"),
        (lambda x: x.sum().backward(), "has no backward"),
    ],
)
def test_what_a_graph_cannot_hold_leaves_it_as_it_was(fn, message):
    graph = framejit.Graph("f")
    x = graph.input((2, 3))
    with framejit.graph_guard(graph):
        y = x + 1
        with pytest.raises(framejit.GraphError, match=message):
            fn(y)
        graph.output(y * 2)
    graph.verify()
    assert torch.equal(framejit.Executor(graph)(x23()), (x23() + 1) * 2)


@pytest.mark.parametrize(
    "fn, error",
    [
        (lambda x: x @ x, RuntimeError),
        (lambda x: x + SEVEN, RuntimeError),
        (lambda x: x[5], IndexError),
        (lambda x: x.sum(4), IndexError),
        (lambda x: x + "text", TypeError),
        (lambda x: torch.special.bessel_j0(x, out=INTEGERS), RuntimeError),
    ],
)
def test_errors_of_operators_are_of_eagers_type_and_leave_no_node(fn, error):
    graph = framejit.Graph()
    x = graph.input((2, 3))
    with pytest.raises(error):
        fn(x23())
    with framejit.graph_guard(graph):
        before = str(graph)
        with pytest.raises(error) as caught:
            fn(x)
        assert str(caught.value) and not isinstance(caught.value, framejit.GraphError)
        assert str(graph) == before and graph.constants == ()


def test_an_exception_of_the_program_leaves_the_graph_valid():
    graph = framejit.Graph()
    x = graph.input((2, 3))
    with pytest.raises(ZeroDivisionError):
        with framejit.graph_guard(graph):
            y = x + 1
            1 / 0
    assert torch.is_grad_enabled() and torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))
    with framejit.graph_guard(graph):
        graph.output(y * 2)
    graph.verify()
    assert torch.equal(framejit.Executor(graph)(x23()), (x23() + 1) * 2)


# Where values may be used


def test_a_value_outside_of_its_guard_is_refused():
    graph = framejit.Graph("f")
    x = graph.input((2, 3))
    before = str(graph)
    for use in (lambda: x + 1, lambda: torch.relu(x), lambda: torch.stack([x, x]), lambda: torch.ones(2, 3).add_(x)):
        with pytest.raises(framejit.GraphError, match=r"was called on <value %0: tensor<2x3xf32, cpu> of graph @f> outside of its guard"):
            use()
    assert str(graph) == before


def test_a_value_of_another_graph_is_refused():
    outer, inner = framejit.Graph("outer"), framejit.Graph("inner")
    x, y = outer.input((2,)), inner.input((2,))
    with framejit.graph_guard(outer):
        with framejit.graph_guard(inner):
            with pytest.raises(framejit.GraphError, match="expected a value of graph @inner, got <value %0: tensor<2xf32, cpu> of graph @outer>"):
                x + y
            inner.output(y * 2)
        with pytest.raises(framejit.GraphError, match="expected a value of graph @outer, got <value %0"):
            torch.cat([x, y])
        outer.output(x * 3)
    assert [len(graph.nodes) for graph in (outer, inner)] == [1, 1]
    assert torch.equal(framejit.Executor(outer)(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(framejit.Executor(inner)(torch.ones(2)), torch.full((2,), 2.0))


def test_guards_of_one_graph_nest_and_each_object_serves_once_at_a_time():
    graph = framejit.Graph()
    x = graph.input((2,))
    guard = framejit.graph_guard(graph)
    with guard as entered:
        assert entered.same_as(graph)
        with framejit.graph_guard(graph):
            y = x + 1
        with pytest.raises(framejit.GraphError, match="in force already"):
            guard.__enter__()
        graph.output(y + 1)
    with guard:
        pass
    assert len(graph.nodes) == 2


def test_guards_end_in_the_reverse_order():
    one, other = framejit.graph_guard(framejit.Graph()), framejit.graph_guard(framejit.Graph())
    with pytest.raises(framejit.GraphError, match="cannot end"):
        one.__exit__(None, None, None)
    one.__enter__()
    other.__enter__()
    with pytest.raises(framejit.GraphError, match="another guard began after it"):
        one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    one.__exit__(None, None, None)
    assert torch.is_grad_enabled() and (torch.ones(1) + 1).item() == 2


def test_a_guard_is_its_threads_own():
    graph = framejit.Graph("f")
    x = graph.input((2,))
    seen = {}

    def other():
        seen["real"] = torch.ones(2) + 1
        for name, use in (("value", lambda: x + 1), ("guard", framejit.graph_guard(graph).__enter__)):
            try:
                use()
            except framejit.GraphError as error:
                seen[name] = str(error)

    with framejit.graph_guard(graph):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert torch.equal(seen["real"], torch.full((2,), 2.0)) and graph.nodes == []
    assert "outside of its guard" in seen["value"] and "another thread is building this graph" in seen["guard"]


def test_two_threads_build_two_graphs():
    graphs = [framejit.Graph("g{}".format(i)) for i in range(2)]

    def build(graph):
        x = graph.input((4, 4))
        with framejit.graph_guard(graph):
            for _ in range(100):
                x = nn.functional.softmax(x @ x, -1)
            graph.output(x)

    threads = [threading.Thread(target=build, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert graphs[0].same_as(graphs[1]) and len(graphs[0].nodes) == 200


def test_modes_that_hide_operators_are_refused():
    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        with pytest.raises(framejit.GraphError, match="graph_guard cannot begin: a __torch_dispatch__ mode is active"):
            framejit.graph_guard(framejit.Graph()).__enter__()


# Real tensors


def test_real_tensors_are_constants_by_reference():
    weight = torch.ones(3)
    graph = built(lambda x: (x * weight, weight + 1), (2, 3))
    assert len(graph.constants) == 1 and graph.constants[0] is weight
    weight.fill_(5)
    assert torch.equal(framejit.Executor(graph)(x23())[0], x23() * 5)


def test_writes_into_real_tensors_happen_when_the_graph_runs():
    total = torch.zeros(3)
    executor = framejit.Executor(built(lambda x: total.add_(x.sum(0)) * 1, (2, 3)))
    assert torch.equal(total, torch.zeros(3))
    for count in (1, 2):
        assert torch.equal(executor(x23()), x23().sum(0) * count)
    assert torch.equal(total, x23().sum(0) * 2)


def test_batch_norm_in_training_updates_its_own_statistics_at_each_run():
    norm, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    executor = framejit.Executor(built(norm, (4, 3)))
    for _ in range(2):
        x = torch.randn(4, 3)
        with torch.no_grad():
            assert torch.equal(executor(x), other(x))
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(norm, name), getattr(other, name)) and getattr(norm, name).abs().sum() > 0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: torch.eye(2).to_sparse(), "cannot hold a tensor whose layout is not strided"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj(), "cannot hold a tensor with the conjugate or negative bit"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "cannot hold a quantized tensor"),
    ],
)
def test_real_tensors_of_other_kinds_are_refused(make, message):
    graph, real = framejit.Graph("f"), make()
    with framejit.graph_guard(graph):
        with pytest.raises(framejit.GraphError, match=message):
            torch.ops.aten.view_as(real, real) if not real.is_conj() else torch.ops.aten.view(real, [2])
    assert graph.nodes == [] and graph.constants == ()


def test_a_real_tensor_keeps_its_sizes():
    real, graph = torch.ones(2, 3), framejit.Graph("f")
    with framejit.graph_guard(graph):
        for change in (lambda: real.t_(), lambda: real.unsqueeze_(0)):
            with pytest.raises(framejit.GraphError, match="changes the sizes of a real tensor, which graph @f cannot hold"):
                change()
    assert real.shape == (2, 3) and graph.nodes == []


# With to_static


def test_a_static_function_inside_of_a_guard_runs_as_the_function():
    compiled = framejit.to_static(lambda x: torch.relu(x) + 1)
    with counts.expect_counts(captures=0, hits=0):
        graph = built(compiled, (2, 3))
    assert [node[0] for node in graph.nodes] == ["aten.relu", "aten.add.Tensor"]
    compiled(x23())
    with counts.expect_counts(captures=0, hits=0):
        assert built(compiled, (2, 3)).same_as(graph)
        built(lambda: compiled(x23()))  # captured for real tensors before
    assert torch.equal(framejit.Executor(graph)(x23()), torch.relu(x23()) + 1)


def test_a_guard_inside_of_a_captured_function_breaks_its_graph():
    graphs = []

    def fn(x):
        y = x * 2
        graph = framejit.Graph("inner")
        value = graph.input((2, 3))
        with framejit.graph_guard(graph):
            graph.output(value.relu() + 1)
        graphs.append(graph)
        return y + 1

    compiled = framejit.to_static(fn)
    for _ in range(3):
        assert torch.equal(compiled(x23()), x23() * 2 + 1)
    assert len(graphs) == 3 and all(graph.same_as(graphs[0]) and len(graph.nodes) == 2 for graph in graphs)
    assert torch.equal(framejit.Executor(graphs[2])(x23()), x23().relu() + 1)
    counts.check_true("breaks", compiled.cache_info().breaks > 0)
    counts.check_equal("captured before the guard", [item.nodes[0][0] for item in compiled.graphs], ["aten.mul.Tensor"])
