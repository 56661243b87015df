"""framejit.Graph: building, text both ways, verification, pictures, pickles."""

import copy
import pickle
import re
import xml.etree.ElementTree
from pathlib import Path

import pytest
import torch
from torch import nn

import framejit

GOLDEN = Path(__file__).parent.parent / "golden" / "graph"

# Compiled under a name of its own, so that the lines in the goldens are these.
SOURCE = """
def linear(x, w, b):
    return torch.relu(F.linear(x, w, b))

def in_place(x):
    y = x * 2
    y[0].add_(1)
    y.t_()
    return y, x.view(6)

def creation(x):
    return torch.cat([x, torch.zeros(2, 3)]), torch.rand(2, dtype=torch.float64), torch.arange(0, 6, 2)

def kinds(x):
    low, high = x.chunk(2, dim=0)
    return torch.where(low > 0.5, low, high), x.to(torch.bfloat16), x.sum((0, 1), keepdim=True), x.unsqueeze(0)

def constants(x):
    return x + torch.tensor([1.0, 2.0, 3.0]), x.pow(2) / float("inf")
"""

INPUTS = {
    "linear": [(2, 3), (4, 3), (4,)],
    "in_place": [(2, 3)],
    "creation": [(2, 3)],
    "kinds": [(2, 3)],
    "constants": [(2, 3)],
}


def functions():
    namespace = {"torch": torch, "F": nn.functional}
    exec(compile(SOURCE, "model.py", "exec"), namespace)
    return namespace


def built(fn, *shapes, name="graph"):
    graph = framejit.Graph(name)
    values = [graph.input(shape) for shape in shapes]
    with framejit.graph_guard(graph):
        result = fn(*values)
    graph.output(*(result if isinstance(result, tuple) else (result,)))
    graph.verify()
    return graph


def relu_graph():
    return built(lambda x: torch.relu(x) + x, (2, 3), name="f")


# Text


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_text_is_the_golden_one(name):
    text = str(built(functions()[name], *INPUTS[name], name=name))
    _, before, after = re.match(r"(pass: none\n)(.*)---\n(.*)", (GOLDEN / "built_{}.txt".format(name)).read_text(), re.S).groups()
    assert text == before == after


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_text_parses_to_an_equal_graph(name):
    graph = built(functions()[name], *INPUTS[name], name=name)
    again = framejit.Graph.parse(str(graph), graph.constants)
    assert str(again) == str(graph) and again.same_as(graph) and graph.same_as(again)
    again.verify()
    assert (again.inputs, again.nodes, again.outputs) == (graph.inputs, graph.nodes, graph.outputs)


def test_same_as_looks_at_the_graph_and_not_at_names_and_lines():
    one, other = built(lambda x: x + 1, (2,), name="one"), built(lambda x: x + 1, (2,), name="other")
    assert str(one) != str(other) and one.same_as(other)
    assert not one.same_as(built(lambda x: x + 2, (2,))) and not one.same_as(built(lambda x: x + 1, (3,)))
    assert one != other and len({one, other, one}) == 2
    with pytest.raises(TypeError, match="expected a framejit.Graph, got str"):
        one.same_as("text")


def test_every_node_names_the_line_that_called_it():
    graph = built(functions()["in_place"], (2, 3))
    lines = [(node[0], node[3], node[4]) for node in graph.nodes]
    assert lines[:3] == [("aten.mul.Tensor", "model.py", 6), ("aten.select.int", "model.py", 7), ("aten.add_.Tensor", "model.py", 7)]


def test_inside_of_library_code_the_callers_line_counts():
    graph = built(lambda x: nn.functional.layer_norm(x, (3,)), (2, 3))
    assert all(node[3] == __file__ for node in graph.nodes) and graph.nodes


@pytest.mark.parametrize(
    "text, message",
    [
        ("graph @g (%0: tensor<2xf99, cpu>) {\n  return\n}", "1:27: expected an element type, got 'f99'"),
        ("graph @g () {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>\n  return\n}", "2:19: expected a defined value, got %0"),
        ("graph @g () {\n  return\n", "3:1: expected '}', got the end"),
        ("hello", "1:1: expected 'graph', got 'hello'"),
        ("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.nagate(%0) : tensor<2xf32, cpu>\n  return %1\n}", "2:8: expected an operator of LibTorch, got 'aten::nagate'"),
        ("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = neg(%0) : tensor<2xf32, cpu>\n  return %1\n}", "2:11: expected an operator 'namespace.name', got 'neg'"),
        ("graph @g (%0: tensor<2xf32, mars>) {\n  return\n}", "1:33: expected a device, got 'mars'"),
        ("graph @g (%0: tensor<2xf32, cpu>) {\n  return %0\n}\nmore", "4:1: expected the end, got 'more'"),
        ("graph @g (%0: tensor<2xf32, cpu, strides=[1, 2]>) {\n  return %0\n}", "1:48: expected 1 strides, got 2"),
        ('graph @g () {\n  %0 = aten.neg("a\n', "3:1: expected '\"', got the end"),
    ],
)
def test_text_that_is_none_says_where_and_what_was_expected(text, message):
    with pytest.raises(framejit.GraphError) as caught:
        framejit.Graph.parse(text)
    assert str(caught.value) == message


def test_pieces_of_a_text_are_refused_and_never_crash():
    text = str(built(functions()["creation"], (2, 3)))
    for end in range(len(text) - 2):
        with pytest.raises(framejit.GraphError):
            framejit.Graph.parse(text[:end])


def test_operators_without_an_entry_parse_with_their_schema():
    graph = built(lambda x: torch.special.bessel_j0(x), (2,))
    text = str(graph)
    assert "aten.special_bessel_j0(" in text and framejit.Graph.parse(text).same_as(graph)
    with pytest.raises(framejit.GraphError, match="expected 1 operands, got 2"):
        framejit.Graph.parse(text.replace("bessel_j0(%0)", "bessel_j0(%0, %0)")).verify()


def test_the_example_of_the_document_runs():
    text = (GOLDEN.parent.parent.parent / "docs" / "graphs.md").read_text()
    example, shown = re.findall(r"```(?:python)?\n(.*?)```", text, re.S)
    namespace = {}
    exec(compile(example, "model.py", "exec"), namespace)
    printed = str(namespace["g"])
    assert printed.startswith(shown.rpartition("  ...")[0]), printed


# Verification

ONE_INPUT = "graph @g (%0: tensor<2x3xf32, cpu>) {{\n  {}\n  return\n}}"


@pytest.mark.parametrize(
    "node, message",
    [
        ("%1 = aten.neg(%0) : tensor<3x2xf32, cpu>", "aten.neg(%0): result 0: expected tensor<2x3xf32, cpu>, got tensor<3x2xf32, cpu>"),
        ("%1 = aten.neg(%0) : tensor<2x3xf32, cpu> same %0", "aten.neg(%0): result 0: expected own storage, got the same as operand 0"),
        ("%1 = aten.add.Tensor(%0) : tensor<2x3xf32, cpu>", "aten.add.Tensor(%0): expected 3 operands, got 1"),
        ("%1 = aten.permute(%0, 1.5) : tensor<2x3xf32, cpu>", "aten.permute(%0, 1.5): operand 1 (dims): expected int[], got a float"),
        ("%1, %2 = aten.neg(%0) : tensor<2x3xf32, cpu>, tensor<2x3xf32, cpu>", "aten.neg(%0): expected 1 results, got 2"),
        ("%1 = aten.mm(%0, %0) : tensor<2x3xf32, cpu>", "aten.mm(%0, %0): expected operands that inference accepts, got an inference error"),
        ("%1 = aten.special_bessel_j0(%0) : tensor<2x3xf32, cpu> same %0", "aten.special_bessel_j0(%0): result 0: expected own storage, got the same as operand 0"),
        ("%1 = framejit.constant(const<2>) : tensor<2xf32, cpu>", "framejit.constant(const<2>): expected a constant below 1, got const<2>"),
        ("%1 = framejit.constant(const<0>) : tensor<2xf32, cpu>", "framejit.constant(const<0>): expected tensor<2xf32, cpu>, got tensor<3xi64, cpu>"),
        ("%1 = framejit.constant() : tensor<2xf32, cpu>", "framejit.constant(): expected 1 operands, got 0"),
        ("%1 = aten.normal_(%0, 0.0, 1.0, const<0>) : tensor<2x3xf32, cpu> same %0", "operand 3: expected a generator, got a tensor"),
    ],
)
def test_a_graph_that_is_wrong_says_expected_and_got(node, message):
    graph = framejit.Graph.parse(ONE_INPUT.format(node), [torch.arange(3)])
    for check in (graph.verify, graph.to_fx, lambda: framejit.Executor(graph)):
        with pytest.raises(framejit.GraphError) as caught:
            check()
        assert message in str(caught.value) and str(caught.value).startswith("graph @g: ")


def test_names_that_a_text_cannot_hold_are_refused():
    assert str(framejit.Graph("a.b_1")).startswith("graph @a.b_1 (")
    for name in ("", "two words", "f(x)", "a\nb"):
        with pytest.raises(ValueError, match="expected a name"):
            framejit.Graph(name)


# Building


def test_inputs_have_the_types_that_they_are_given():
    graph = framejit.Graph()
    for arguments in (((),), ((2, 3), torch.int64), ((2, 3), torch.float16, "cuda:1"), ((2, 3), torch.float32, "cpu", (1, 2))):
        value = graph.input(*arguments)
        assert isinstance(value, torch.Tensor) and tuple(value.shape) == tuple(arguments[0])
    assert [text for _, text in graph.inputs] == [
        "tensor<f32, cpu>",
        "tensor<2x3xi64, cpu>",
        "tensor<2x3xf16, cuda:1>",
        "tensor<2x3xf32, cpu, strides=[1, 2]>",
    ]
    assert value.stride() == (1, 2) and not value.is_contiguous()
    assert graph.input(shape=[4], strides=[2], device=torch.device("cuda")).device == torch.device("cuda", 0)


@pytest.mark.parametrize(
    "arguments, error",
    [(((2, -1),), RuntimeError), (("ab",), TypeError), ((3,), TypeError), (((2,), "float"), TypeError), (((2,), torch.float32, "mars"), RuntimeError)],
)
def test_inputs_that_are_no_tensors_type_are_refused(arguments, error):
    graph = framejit.Graph()
    with pytest.raises(error):
        graph.input(*arguments)
    assert graph.inputs == []


def test_outputs_are_values_of_the_graph():
    graph, other = relu_graph(), framejit.Graph("other")
    foreign = other.input((2,))
    before = str(graph)
    with pytest.raises(framejit.GraphError, match=r"output 0: expected a value of graph @f, got <value %0: tensor<2xf32, cpu> of graph @other>"):
        graph.output(foreign)
    with pytest.raises(framejit.GraphError, match="output 0: expected a tensor, got int"):
        graph.output(3)
    assert str(graph) == before
    graph.output()
    assert graph.outputs == [] and "  return\n" in str(graph)


def test_a_real_tensor_that_is_returned_is_a_constant():
    weight = torch.ones(3)
    graph = framejit.Graph()
    graph.output(graph.input((1,)), weight)
    assert graph.constants[0] is weight and graph.outputs == [0, 1]
    assert framejit.Executor(graph)(torch.zeros(1))[1] is weight


# Pictures


def test_dot_and_svg_are_drawn_as_for_captured_graphs():
    graph = relu_graph()
    captured = framejit.explain(lambda x: torch.relu(x) + x, torch.ones(2, 3)).graphs[0]
    boxes = re.compile(r'label="([^"]*)", ')
    assert boxes.findall(graph.to_dot()) == boxes.findall(captured.to_dot())
    root = xml.etree.ElementTree.fromstring(graph._repr_svg_())
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == ["%0", "relu", "add.Tensor"]
    assert framejit.Graph()._repr_svg_() is None


def test_data_has_the_numbers_of_the_text():
    graph = framejit.Graph("late")
    x = graph.input((2,))
    with framejit.graph_guard(graph):
        y = torch.neg(x)
        z = graph.input((2,))  # numbered as an input, though it came after a node
        graph.output(y + z)
    assert "(%0: tensor<2xf32, cpu>, %1: tensor<2xf32, cpu>)" in str(graph)
    assert [number for number, _ in graph.inputs] == [0, 1] and graph.outputs == [3]
    assert [(node[1], node[2][0][0]) for node in graph.nodes] == [([0], 2), ([2, 1], 3)]
    assert repr(y) == "<value %2: tensor<2xf32, cpu> of graph @late>"
    assert torch.equal(framejit.Executor(graph)(torch.ones(2), torch.full((2,), 5.0)), torch.full((2,), 4.0))


# Pickles


def test_pickles_with_its_constants():
    weight = torch.tensor([1.0, 2.0, 3.0])
    graph = built(lambda x: (x * weight + torch.tensor([1.0, 1.0, 1.0]), torch.rand(2)), (2, 3), name="pickled")
    for again_of in (lambda item: pickle.loads(pickle.dumps(item)), copy.deepcopy):
        again = again_of(graph)
        assert str(again) == str(graph) and all(map(torch.equal, again.constants, graph.constants))
        torch.manual_seed(0)
        expected = framejit.Executor(graph)(torch.ones(2, 3))
        torch.manual_seed(0)
        got = framejit.Executor(again)(torch.ones(2, 3))
        assert all(map(torch.equal, got, expected)) and torch.equal(expected[0][0], torch.tensor([2.0, 3.0, 4.0]))
        weight.mul_(2)  # the copy has constants of its own
        assert torch.equal(framejit.Executor(again)(torch.ones(2, 3))[0][0], torch.tensor([2.0, 3.0, 4.0]))
        weight.div_(2)


def test_constants_that_are_none_are_refused():
    text = str(relu_graph())
    with pytest.raises(TypeError, match="constant 0: expected a tensor or a generator, got int"):
        framejit.Graph.parse(text, [3])
    with pytest.raises(framejit.GraphError, match="constant 1: a graph cannot hold a tensor whose layout is not strided"):
        framejit.Graph.parse(text, [torch.ones(2), torch.eye(2).to_sparse()])
