"""framejit.Executor: one graph, run on real tensors."""

import threading

import pytest
import torch
from torch import nn

import framejit
from support import counts
from test_graphs import built


def x23():
    return torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "inputs, error, message",
    [
        (lambda: (), TypeError, "expected 2 inputs, got 0"),
        (lambda: (x23(), x23(), x23()), TypeError, "expected 2 inputs, got 3"),
        (lambda: (x23(), 3.0), TypeError, "input 1: expected tensor<2x3xf32, cpu>, got float"),
        (lambda: (x23(), None), TypeError, "input 1: expected tensor<2x3xf32, cpu>, got NoneType"),
        (
            lambda: (x23().t().contiguous(), x23()),
            framejit.GraphError,
            "input 0: expected tensor<2x3xf32, cpu>, got tensor<3x2xf32, cpu>",
        ),
        (
            lambda: (torch.ones(6), x23()),
            framejit.GraphError,
            "input 0: expected tensor<2x3xf32, cpu>, got tensor<6xf32, cpu>",
        ),
        (lambda: (torch.ones(3, 2).t(), x23()), framejit.GraphError, "got tensor<2x3xf32, cpu, strides=[1, 2]>"),
        (
            lambda: (x23().double(), x23()),
            framejit.GraphError,
            "input 0: expected tensor<2x3xf32, cpu>, got tensor<2x3xf64, cpu>",
        ),
        (
            lambda: (x23(), x23().to("meta")),
            framejit.GraphError,
            "input 1: expected tensor<2x3xf32, cpu>, got tensor<2x3xf32, meta>",
        ),
        (
            lambda: (x23(), x23().to_sparse()),
            framejit.GraphError,
            "input 1: expected tensor<2x3xf32, cpu>, got a tensor whose layout is not strided",
        ),
        (lambda: (x23().requires_grad_(), x23()), framejit.GraphError, "got a tensor that requires grad"),
    ],
)
def test_inputs_of_another_type_are_refused(inputs, error, message):
    executor = framejit.Executor(built(lambda x, y: x + y, (2, 3), (2, 3), name="f"))
    with pytest.raises(error) as caught:
        executor(*inputs())
    assert message in str(caught.value) and str(caught.value).startswith("Executor of graph @f: ")
    with pytest.raises(TypeError, match="no keywords"):
        executor(x23(), other=x23())


def test_needs_a_graph():
    with pytest.raises(TypeError, match="expected a framejit.Graph, got function"):
        framejit.Executor(x23)


def test_a_device_that_is_not_there_is_another_device():
    graph = framejit.Graph()
    x = graph.input((2, 3), device="cuda:0")
    graph.output(x)
    with pytest.raises(framejit.GraphError, match="expected tensor<2x3xf32, cuda:0>, got tensor<2x3xf32, cpu>"):
        framejit.Executor(graph)(x23())


def test_a_module_gives_eagers_result():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Softmax(-1)).eval()
    executor = framejit.Executor(built(model, (2, 3)))
    with torch.no_grad():
        assert torch.equal(executor(x23()), model(x23()))
        model[0].weight.mul_(2)  # constants are the parameters themselves
        assert torch.equal(executor(x23()), model(x23()))
        got = executor(x23().requires_grad_())
    assert not got.requires_grad


def test_grad_mode_with_parameters_is_refused():
    executor = framejit.Executor(built(nn.Linear(3, 2), (2, 3)))
    with pytest.raises(framejit.GraphError, match="a constant requires grad.*torch.no_grad"):
        executor(x23())
    with torch.inference_mode():
        assert executor(x23()).is_inference()


def test_several_outputs_are_a_tuple_and_none_an_empty_one():
    both = framejit.Executor(built(lambda x: (x + 1, x * 2), (2, 3)))(x23())
    assert type(both) is tuple and torch.equal(both[0], x23() + 1) and torch.equal(both[1], x23() * 2)
    assert framejit.Executor(built(lambda x: (), (2, 3)))(x23()) == ()
    text = "graph @g (%0: tensor<2x3xf32, cpu>) {\n  return none, %0\n}\n"
    x = x23()
    nothing, same = framejit.Executor(framejit.Graph.parse(text))(x)
    assert nothing is None and same is x


def test_outputs_that_are_inputs_are_those_tensors():
    def fn(x, y):
        x.add_(1)
        return x, y, x.view(6), x.relu_()

    executor = framejit.Executor(built(fn, (2, 3), (1,)))
    x, y = x23().clone(), torch.ones(1)
    first, second, view, last = executor(x, y)
    assert first is x and second is y and last is x
    assert torch.equal(x, x23() + 1) and x._base is None and view._base is x and view.data_ptr() == x.data_ptr()


def test_writes_through_views_reach_the_inputs_and_count_as_versions():
    def fn(x):
        x[0].mul_(3)
        x.t()[1].zero_()

    executor = framejit.Executor(built(lambda x: fn(x) or x.sum(), (2, 3)))
    x, y = x23(), x23()
    before = x._version
    total = executor(x)
    fn(y)
    assert torch.equal(x, y) and torch.equal(total, y.sum()) and x._version - before == y._version


def test_random_operators_draw_eagers_numbers():
    def fn(x):
        return torch.rand(3), nn.functional.dropout(x, 0.5), torch.randperm(5), x.clone().normal_()

    executor = framejit.Executor(built(fn, (2, 3)))
    for _ in range(2):
        torch.manual_seed(7)
        expected, state = fn(x23()), torch.get_rng_state()
        torch.manual_seed(7)
        got = executor(x23())
        assert all(map(torch.equal, got, expected)) and torch.equal(torch.get_rng_state(), state)


def test_a_generator_is_the_programs_own():
    generator = torch.Generator()
    executor = framejit.Executor(built(lambda x: x + torch.rand(3, generator=generator), (2, 3)))
    generator.manual_seed(3)
    expected = x23() + torch.rand(3, generator=generator)
    generator.manual_seed(3)
    assert torch.equal(executor(x23()), expected)


def test_what_is_added_later_does_not_change_an_executor():
    graph = built(lambda x: x + 1, (2, 3))
    executor = framejit.Executor(graph)
    with framejit.graph_guard(graph):
        graph.output(torch.zeros(1))
    assert torch.equal(executor(x23()), x23() + 1)
    assert torch.equal(framejit.Executor(graph)(x23()), torch.zeros(1))


def test_the_graph_may_end_before_its_executor():
    executor = framejit.Executor(built(lambda x: x @ torch.tensor([[1.0], [2.0], [3.0]]), (2, 3)))
    assert torch.equal(executor(x23()), torch.tensor([[8.0], [26.0]]))
    assert torch.equal(executor(x23()), torch.tensor([[8.0], [26.0]]))


def test_literals_are_new_tensors_at_each_call():
    executor = framejit.Executor(built(lambda x: torch.tensor([1.0, 2.0, 3.0]).add_(x.sum()), (2, 3)))
    assert torch.equal(executor(x23()), executor(x23()))


def test_an_operator_that_fails_raises_its_own_error_from_the_line_that_built_it():
    graph = framejit.Graph("lookup")
    table, index = graph.input((4, 2)), graph.input((3,), torch.int64)
    with framejit.graph_guard(graph):
        graph.output(nn.functional.embedding(index, table))
    executor = framejit.Executor(graph)
    with pytest.raises(IndexError, match="index out of range") as caught:
        executor(torch.ones(4, 2), torch.tensor([0, 9, 1]))
    assert str(caught.traceback[-1].path) == __file__
    assert torch.equal(executor(torch.ones(4, 2), torch.tensor([0, 3, 1])), torch.ones(3, 2))


def test_offsets_count_where_an_operator_reads_them():
    plain = framejit.Executor(built(lambda x: x.relu(), (2, 3)))
    assert torch.equal(plain(torch.arange(9.0).reshape(3, 3)[1:]), torch.arange(9.0).reshape(3, 3)[1:])
    strided = framejit.Executor(built(lambda x: x.as_strided((2,), (1,), 1), (2, 3)))
    assert torch.equal(strided(x23()), torch.tensor([1.0, 2.0]))
    with pytest.raises(framejit.GraphError, match="expected tensor<2x3xf32, cpu>, got tensor<2x3xf32, cpu, offset=3>"):
        strided(torch.arange(9.0).reshape(3, 3)[1:])


def test_autocast_around_a_run_does_nothing_and_around_the_guard_is_recorded():
    graph = framejit.Graph()
    x, w = graph.input((2, 3)), graph.input((3, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16), framejit.graph_guard(graph):
        graph.output(x @ w)
    assert "bf16" in str(graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = x23() @ torch.ones(3, 4)
    assert torch.equal(framejit.Executor(graph)(x23(), torch.ones(3, 4)), expected)
    plain = framejit.Executor(built(lambda x, w: x @ w, (2, 3), (3, 4)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert plain(x23(), torch.ones(3, 4)).dtype == torch.float32


def test_several_threads_run_one_executor():
    executor = framejit.Executor(built(lambda x: (x @ x).softmax(-1), (64, 64)))
    inputs = [torch.randn(64, 64) for _ in range(4)]
    expected, got = [(x @ x).softmax(-1) for x in inputs], [None] * 4

    def run(i):
        for _ in range(20):
            got[i] = executor(inputs[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(map(torch.equal, got, expected))


def test_inside_of_a_captured_function_it_is_called_between_graphs():
    executor = framejit.Executor(built(lambda x: x * 3, (2, 3)))
    compiled = framejit.to_static(lambda x: executor(x + 1) - 1)
    for _ in range(2):
        assert torch.equal(compiled(x23()), (x23() + 1) * 3 - 1)
    counts.check_equal("graphs", compiled.cache_info().graphs, 2)


def test_inside_of_a_guard_it_is_refused():
    graph = built(lambda x: x * 3, (2, 3))
    executor = framejit.Executor(graph)
    with framejit.graph_guard(framejit.Graph()):
        with pytest.raises(framejit.GraphError, match="runs outside of graph_guard"):
            executor(x23())


def test_values_are_no_inputs():
    graph = built(lambda x: x * 3, (2, 3), name="f")
    with pytest.raises(framejit.GraphError, match="got <value %0: tensor<2x3xf32, cpu> of graph @g>"):
        framejit.Executor(graph)(framejit.Graph("g").input((2, 3)))


VIEWS = {
    "view": lambda x: x.view(4, 6),
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "t": lambda x: x[0].t(),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[:, 1:, ::2],
    "select": lambda x: x[1, :, 2],
    "split": lambda x: x.split(2, 1)[1],
    "split_with_sizes": lambda x: x.split([1, 2], 1)[1],
    "unbind": lambda x: x.unbind(2)[3],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze of one": lambda x: x[:, :1].squeeze(1),
    "of a view": lambda x: x[1].t()[1:].unsqueeze(0).expand(2, -1, -1),
    "of complex numbers": lambda x: torch.complex(x, x).conj()[1].t(),
    "of a negative": lambda x: torch.complex(x, x).conj().imag[1].t(),
    "of nothing": lambda x: x[:, 3:].transpose(0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    """Of what the graph makes and of an input that begins anywhere, as results and read by other operators."""

    def program(x):
        made = x * 2
        views = VIEWS[name](made), VIEWS[name](x)
        return (*views, views[0] + 1, views[1] * 3)

    framejit.reset()
    compiled = framejit.to_static(program, full_graph=True)
    memory = torch.arange(40.0)
    for offset in (0, 0, 7, 16):
        x = memory[offset : offset + 24].view(2, 3, 4)
        for found, expected in zip(compiled(x), program(x)):
            assert torch.equal(found, expected)
            assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
            assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg())
        if "of complex" not in name and "of a negative" not in name:
            assert compiled(x)[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert framejit.stats()["hits"] > 0


@pytest.mark.runs_once("the eager run of a shadowed call asks the dispatcher")
def test_views_are_made_without_the_dispatcher():
    def program(x):
        a, b = x.split(1)
        return (a.transpose(0, 1).expand(3, 3) + b.view(3).unsqueeze(0)[:, :]).sum()

    compiled = framejit.to_static(program, full_graph=True)
    with torch.no_grad():
        x = x23()
        compiled(x), compiled(x)
        with torch.autograd.profiler.profile() as profile:
            result = compiled(x)
    names = {event.name for event in profile.function_events}
    assert torch.equal(result, program(x23()))
    assert "aten::add" in names
    assert not names & {
        "aten::split",
        "aten::transpose",
        "aten::expand",
        "aten::view",
        "aten::slice",
        "aten::unsqueeze",
    }
