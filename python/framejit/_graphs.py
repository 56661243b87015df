"""Graphs that a program builds: their values, and graphs from torch.fx."""

import torch
import torch.fx
from torch.utils import _pytree

from framejit import _C
from framejit._errors import GraphError

# What asks for the data of a tensor, or for its memory, and would be answered wrongly or not at all.
_NEED_DATA = (
    "__array__ __bool__ __complex__ __contains__ __deepcopy__ __dlpack__ __float__ __index__ __int__ __reduce_ex__ "
    "data_ptr item numpy storage tolist untyped_storage"
).split()


class GraphValue(torch.Tensor):
    """A tensor of a `framejit.Graph`: its sizes, strides, dtype and device are known, its data is not.

    Inside the guard of its graph it has torch.Tensor's methods and operators, each of which becomes a node. Hash and
    identity are torch.Tensor's. What needs data raises GraphError.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents=None):
        return _C.describe_value(self)

    __str__ = __repr__

    def __format__(self, spec):
        if spec:
            raise _no_data(self, "format(value, {!r})".format(spec))
        return repr(self)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, tensor):
        raise GraphError("the data of {!r} cannot be set; copy_() writes into it".format(self))

    def backward(self, *args, **kwargs):
        raise GraphError(
            "{!r} has no backward(), which would write .grad; torch.autograd.grad under torch.enable_grad() gives "
            "gradients as values".format(self)
        )


def _no_data(value, what):
    return GraphError(
        "{} needs the data of {!r}, which it has only when a framejit.Executor runs the graph; compute with the value "
        "itself (torch.where for a choice), or return it from the graph".format(what, value)
    )


def _refusing(name):
    def method(self, *args, **kwargs):
        raise _no_data(self, name + "()")

    method.__name__ = name
    method.__qualname__ = "GraphValue." + name
    return method


for _name in _NEED_DATA:
    setattr(GraphValue, _name, _refusing(_name))


def input_type(shape, dtype=torch.float32, device="cpu", strides=None):
    """Called by `Graph.input`: a tensor on the device "meta" that has this type, and the name of the device."""
    shape = tuple(shape)
    if strides is None:
        meta = torch.empty(shape, dtype=dtype, device="meta")
    else:
        meta = torch.empty_strided(shape, tuple(strides), dtype=dtype, device="meta")
    device = torch.device(device)
    if device.type == "cpu":
        return meta, "cpu"
    if device.index is None and device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_available() else 0)
    return meta, str(device)


def from_fx(graph_module, example_inputs, name="graph"):
    """A graph from a torch.fx.GraphModule, specialised to the sizes, strides, dtypes and devices of the examples.

    Args:
        graph_module: torch.fx.GraphModule, such as `torch.fx.symbolic_trace` or `Graph.to_fx` gives.
        example_inputs: a tensor for each placeholder; only its type is looked at.
        name: of the graph.

    Returns:
        Graph: its outputs are the tensors that the module returns, in order. Parameters, buffers and other tensors of the
        module are constants, by reference.

    Raises:
        TypeError: no GraphModule, or another number of examples than placeholders, or one that is no tensor.
        GraphError: a node that a graph cannot hold, such as one of an unknown operator or one that needs data: its name,
            and why.
    """
    if not isinstance(graph_module, torch.fx.GraphModule):
        raise TypeError("expected a torch.fx.GraphModule, got {}".format(type(graph_module).__name__))
    examples = tuple(example_inputs)
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    if len(examples) != len(placeholders):
        raise TypeError("expected {} example inputs, got {}".format(len(placeholders), len(examples)))
    for placeholder, example in zip(placeholders, examples):
        if not isinstance(example, torch.Tensor) or example.layout != torch.strided:
            what = example.layout if isinstance(example, torch.Tensor) else type(example).__name__
            raise TypeError("example for %{}: expected a strided tensor, got {}".format(placeholder, what))
    graph = _C.Graph(name)
    values = [graph.input(item.shape, item.dtype, item.device, item.stride()) for item in examples]
    with _C.graph_guard(graph):
        result = _Interpreter(graph_module).run(*values)
        outputs = [item for item in _pytree.tree_flatten(result)[0] if item is not None]
        for item in outputs:
            if not isinstance(item, torch.Tensor):
                raise GraphError("from_fx: output: expected tensors, got {}".format(type(item).__name__))
        graph.output(*outputs)
    return graph


class _Interpreter(torch.fx.Interpreter):
    """Says which node it is that cannot be recorded."""

    def run_node(self, node):
        try:
            return super().run_node(node)
        except Exception as error:
            target = node.target if isinstance(node.target, str) else torch.typename(node.target)
            reason = "{}: {}".format(type(error).__name__, str(error).strip())
            raise GraphError("from_fx: %{} ({} of {}): {}".format(node.name, node.op, target, reason)) from error
