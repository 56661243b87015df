"""Graphs to torch.fx and back: of captured functions and of graphs that a program builds."""

import pickle
import sys

import pytest
import torch
import torch.fx
from torch import nn

import framejit
from support import counts
from test_graphs import INPUTS, built, functions


def x23():
    return torch.arange(6.0).reshape(2, 3) / 4 - 0.5


def captured(fn, *args):
    compiled = framejit.to_static(fn)
    compiled(*args)
    (graph,) = compiled.graphs
    return graph


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)) + torch.arange(4.0))


# Captured graphs


def test_a_captured_graph_becomes_a_module_that_runs_and_pickles():
    graph = captured(lambda x, y: (torch.relu(x) @ y, x.chunk(3, 1)[1], y.to(torch.float64)), x23(), torch.ones(3, 4))
    module = graph.to_fx()
    assert isinstance(module, torch.fx.GraphModule) and "aten.relu" in str(module.graph)
    x, y = x23() + 1, torch.randn(3, 4)
    expected = (torch.relu(x) @ y, x.chunk(3, 1)[1], y.double())
    for runs in (module, pickle.loads(pickle.dumps(module))):
        got = runs(x, y)
        assert type(got) is tuple and all(map(torch.equal, got, expected))


def test_parameters_are_placeholders_and_sources_say_which():
    model = Model()
    compiled = framejit.to_static(model)
    compiled(x23())
    graph = model._compiled_call_impl.graphs[0]
    assert len(graph.sources) == len(graph.inputs)
    named = {name: source for name, _ in model.named_parameters() for source in graph.sources if all(part in source for part in name.split("."))}
    assert sorted(named) == ["first.bias", "first.weight", "second.weight"] and len(set(named.values())) == 3
    values = {source: model.get_parameter(name) for name, source in named.items()}
    module, x = graph.to_fx(), torch.randn(2, 3)
    (got,) = module(*[values.get(source, x) for source in graph.sources])
    assert torch.equal(got, model(x))
    got.sum().backward()  # the module differentiates
    gradient = model.first.weight.grad.clone()
    model.zero_grad()
    Model.forward(model, x).sum().backward()
    assert torch.equal(gradient, model.first.weight.grad)


def test_a_captured_graph_is_a_graph_by_itself():
    graph = captured(lambda x: torch.relu(x) + torch.tensor([1.0, 2.0, 3.0]), x23())
    own = graph.graph()
    assert type(own) is framejit.Graph and str(own) == str(graph) and own.inputs == graph.inputs and own.nodes == graph.nodes
    assert own.sources == graph.sources and "x" in own.sources[0]
    own.verify()
    assert torch.equal(framejit.Executor(own)(x23()), torch.relu(x23()) + torch.tensor([1.0, 2.0, 3.0]))
    own.output()
    assert str(own) != str(graph) == str(graph.graph())


def test_outputs_of_training_are_not_the_graphs_own():
    w = torch.ones(3, 3, requires_grad=True)
    compiled = framejit.to_static(lambda x: torch.sin(x @ w).exp())
    compiled(x23()).sum().backward()
    (graph,) = compiled.graphs
    counts.check_true("backward", graph.backward)
    assert len(graph.outputs) > 1 and len(graph.graph().outputs) == 1
    with torch.no_grad():
        expected = torch.sin(x23() @ w).exp()
        inputs = [w if "x" not in source else x23() for source in graph.sources]
        assert torch.equal(framejit.Executor(graph.graph())(*inputs), expected)


def test_a_graph_survives_the_reset_of_its_function():
    compiled = framejit.to_static(lambda x: x * 2)
    compiled(x23())
    (graph,) = compiled.graphs
    compiled.reset()
    assert torch.equal(graph.to_fx()(x23())[0], x23() * 2)


def test_what_torch_fx_cannot_say_is_refused():
    def mixed(x, w):
        y = x * w
        with torch.no_grad():
            z = y * 2
        return y, z

    w = torch.ones(3, requires_grad=True)
    for fn, why in ((mixed, "grad mode changes inside of the captured code"), (lambda x, w: (x * w).data, "an output is `.data` of a tensor")):
        graph = captured(fn, x23(), w)
        with pytest.raises(framejit.GraphError, match="to_fx: " + why):
            graph.to_fx()
        with pytest.raises(framejit.GraphError, match=why):
            pickle.loads(pickle.dumps(graph.graph())).to_fx()


def test_where_nothing_is_captured_there_is_no_graph():
    report = framejit.explain(lambda x: (x + 1, sys._getframe().f_code.co_name), x23())
    (eager,) = [item for item in report.breaks if item.eager]
    with pytest.raises(ValueError, match="no graph at .*test_fx.py"):
        eager.graph()
    with pytest.raises(ValueError, match="no graph at"):
        eager.to_fx()


def test_functions_of_other_back_ends_have_graphs_too():
    compiled = framejit.to_static(lambda x: torch.relu(x) * 2, backend=lambda module, examples: module.forward)
    compiled(x23())
    (graph,) = compiled.graphs
    assert torch.equal(graph.to_fx()(x23())[0], torch.relu(x23()) * 2)


# Round trips


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_a_graph_comes_back_from_torch_fx(name):
    graph = built(functions()[name], *INPUTS[name])
    module = graph.to_fx()
    examples = [torch.ones(shape) for shape in INPUTS[name]]
    again = framejit.from_fx(module, examples)
    assert again.same_as(graph)
    assert framejit.from_fx(pickle.loads(pickle.dumps(module)), examples).same_as(graph)
    torch.manual_seed(0)
    expected = framejit.Executor(graph)(*[torch.ones(shape) for shape in INPUTS[name]])
    torch.manual_seed(0)
    with torch.no_grad():
        got = module(*examples)
    expected = expected if type(expected) is tuple else (expected,)
    assert all(map(torch.equal, got, expected))


def test_a_captured_graph_comes_back():
    graph = captured(Model().eval().forward, x23())
    model = Model()
    names = {source: model.get_parameter(name) for source in graph.sources for name, _ in model.named_parameters() if all(p in source for p in name.split("."))}
    examples = [names.get(source, x23()) for source in graph.sources]
    again = framejit.from_fx(graph.to_fx(), examples)
    # A program's module says nothing of the default dtype that arange(4.0) was called under.
    text = str(graph.graph()).replace(", grad>", ">").replace("  under(default_dtype=f32)\n", "")
    assert again.same_as(framejit.Graph.parse(text, graph.graph().constants))


# From torch.fx


def test_a_traced_module_with_its_parameters_as_constants():
    model = Model().eval()
    graph = framejit.from_fx(torch.fx.symbolic_trace(model), [x23()], name="model")
    assert str(graph).startswith("graph @model (%0: tensor<2x3xf32, cpu>)")
    assert any(constant is model.first.weight for constant in graph.constants)
    with torch.no_grad():
        assert torch.equal(framejit.Executor(graph)(x23()), model(x23()))


def test_nested_outputs_come_in_order():
    module = torch.fx.symbolic_trace(lambda x: {"a": x + 1, "b": [x * 2, (x,)], "c": None})
    graph = framejit.from_fx(module, [x23()])
    first, second, third = framejit.Executor(graph)(x23())
    assert torch.equal(first, x23() + 1) and torch.equal(second, x23() * 2) and torch.equal(third, x23())


def nodes_of(*calls):
    """A GraphModule with one input that calls these functions one after another."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    for target, arguments in calls:
        value = graph.call_function(target, (value, *arguments))
    graph.output(value)
    return torch.fx.GraphModule(nn.Module(), graph)


def unknown_operator(x):
    return torch.ops.aten.no_such_operator(x)


@pytest.mark.parametrize(
    "target, message",
    [
        (unknown_operator, r"from_fx: %unknown_operator \(call_function of .*unknown_operator\): AttributeError: .*no_such_operator"),
        (bool, r"from_fx: %bool_1 \(call_function of .*bool\): GraphError: __bool__\(\) needs the data of <value %0"),
        (torch.nonzero, r"from_fx: %nonzero \(call_function of .*nonzero\): GraphError: the shape of what aten::nonzero returns"),
        (torch.Tensor.size, r"from_fx: output: expected tensors, got int"),
    ],
)
def test_nodes_that_a_graph_cannot_hold_are_named(target, message):
    with pytest.raises(framejit.GraphError, match=message):
        framejit.from_fx(nodes_of((target, ())), [x23()])


def test_an_operator_without_a_meta_kernel_is_named():
    library = torch.library.Library("framejit_fx_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    module = nodes_of((torch.ops.framejit_fx_test.twice.default, ()))
    with pytest.raises(framejit.GraphError, match="from_fx: %twice.*framejit_fx_test::twice has no Meta kernel, so graph @graph cannot hold it"):
        framejit.from_fx(module, [x23()])
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")
    graph = framejit.from_fx(module, [x23()])
    assert [node[0] for node in graph.nodes] == ["framejit_fx_test.twice"]
    assert torch.equal(framejit.Executor(framejit.Graph.parse(str(graph)))(x23()), x23() * 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((lambda x: x, [1]), "expected a torch.fx.GraphModule, got function"),
        ((nodes_of((torch.relu, ())), []), "expected 1 example inputs, got 0"),
        ((nodes_of((torch.relu, ())), [3]), "example for %x: expected a strided tensor, got int"),
        ((nodes_of((torch.relu, ())), [torch.eye(2).to_sparse()]), "example for %x: expected a strided tensor, got torch.sparse_coo"),
    ],
)
def test_what_is_no_module_or_no_example_is_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        framejit.from_fx(*arguments)


def test_a_generator_cannot_be_exported():
    graph = built(lambda x: x + torch.rand(3, generator=torch.Generator()), (2, 3))
    with pytest.raises(NotImplementedError, match="a generator cannot be exported"):
        graph.to_fx()
