"""Turns a captured graph into a torch.fx.GraphModule, for back ends that take one.

The C++ side calls `build` with plain data; nothing here is part of the public interface.
"""

import operator

import torch
import torch.fx

_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16"
).split()
_LATER_DTYPES = {
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
    27: "uint16",
    28: "uint32",
    29: "uint64",
    44: "float8_e8m0fnu",
}
_MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class Value:
    """A tensor of the graph, by number."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


def dtype(number):
    """The torch.dtype for LibTorch's number of it."""
    return getattr(torch, _DTYPES[number] if number < len(_DTYPES) else _LATER_DTYPES[number])


def layout(number):
    """The torch.layout for LibTorch's number of it."""
    return (torch.strided, torch.sparse_coo, torch.sparse_csr, torch._mkldnn)[number]


def memory_format(number):
    """The torch.memory_format for LibTorch's number of it."""
    return _MEMORY_FORMATS[number]


def example(sizes, strides, dtype_number, device, requires_grad):
    """A real tensor of this kind, its values not set."""
    tensor = torch.empty_strided(sizes, strides, dtype=dtype(dtype_number), device=device)
    return tensor.requires_grad_(requires_grad)


def _overload(name):
    namespace, rest = name.split("::", 1)
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def build(inputs, constants, nodes, outputs):
    """Returns the GraphModule.

    inputs: value numbers; constants: (value number, tensor); nodes: (operator, arguments, names of keyword-only
    arguments, result numbers, how the results come: "one", "tuple", "list" or "none"); outputs: value numbers, or None.
    """
    root = torch.nn.Module()
    graph = torch.fx.Graph(root)
    values = {}

    def argument(value):
        if isinstance(value, Value):
            return values[value.number]
        if isinstance(value, list):
            return [argument(item) for item in value]
        return value

    for position, number in enumerate(inputs):
        values[number] = graph.placeholder("arg{}".format(position))
    for position, (number, tensor) in enumerate(constants):
        name = "_constant{}".format(position)
        root.register_buffer(name, tensor, persistent=False)
        values[number] = graph.get_attr(name)
    for name, arguments, keywords, results, kind in nodes:
        arguments = [argument(item) for item in arguments]
        split = len(arguments) - len(keywords)
        call = graph.call_function(_overload(name), tuple(arguments[:split]), dict(zip(keywords, arguments[split:])))
        if kind == "one":
            values[results[0]] = call
        elif kind != "none":
            for index, number in enumerate(results):
                values[number] = graph.call_function(operator.getitem, (call, index))
    graph.output(tuple(None if number is None else values[number] for number in outputs))
    return GraphModule(root, graph)


class GraphModule(torch.fx.GraphModule):
    """One that pickles node by node.

    torch.fx pickles the code and traces it again, which runs what has no tensor argument: `torch.rand` would become the
    numbers that it drew, and where operators are overloads, their objects do not pickle.
    """

    def __reduce__(self):
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        return _restored, (state, [_plain_node(node) for node in self.graph.nodes])


class _NodeName:
    """In the pickle of a graph: a node that is an argument of another."""

    def __init__(self, name):
        self.name = name


class _OperatorName:
    """In the pickle of a graph: an operator of LibTorch."""

    def __init__(self, name):
        self.name = name


def _plain_node(node):
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        target = _OperatorName(str(target._schema.name) + "." + target._overloadname)
    arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda used: _NodeName(used.name))
    return node.name, node.op, target, _plain(arguments)


def _plain(value):
    """Tuples, lists and dicts as they are, without torch.fx's own kinds of them."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list):
        return list(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _restored(state, nodes):
    root, graph, made = torch.nn.Module(), torch.fx.Graph(), {}

    def argument(value):
        if isinstance(value, _NodeName):
            return made[value.name]
        if isinstance(value, (tuple, list)):
            return type(value)(map(argument, value))
        return {key: argument(item) for key, item in value.items()} if isinstance(value, dict) else value

    for name, op, target, (args, kwargs) in nodes:
        if isinstance(target, _OperatorName):
            target = _overload(target.name)
        made[name] = graph.create_node(op, target, argument(args), argument(kwargs), name)
    root.__dict__.update(state)
    return GraphModule(root, graph)
