"""framejit: run ordinary PyTorch code as captured graphs.

    import framejit, torch

    @framejit.to_static
    def f(x, y):
        return torch.relu(x @ y) + 1

The first call captures the tensor operations of the function into a graph, under guards; later calls that pass the same
guards run the graph without the interpreter. What cannot be captured runs as it always did, and `framejit.explain` says
why. Results, mutations, exceptions and random numbers are those of eager execution.
"""

from framejit import _torch_check

_torch_check.check()

from framejit import _C, ops  # noqa: E402
from framejit._api import (  # noqa: E402
    enable_to_static,
    enable_to_static_guard,
    graph_break,
    is_capturing,
    not_to_static,
    reset,
    stats,
    to_static,
)
from framejit._errors import GraphBreakError, GraphError, InternalError, ShadowError  # noqa: E402
from framejit._graphs import from_fx  # noqa: E402
from framejit._inspect import CacheInfo, CapturedGraph, Explanation, explain  # noqa: E402
from framejit._startup import start as _start  # noqa: E402

StaticFunction = _C.StaticFunction
Graph = _C.Graph
graph_guard = _C.graph_guard
Executor = _C.Executor

_start()

__all__ = [
    "CacheInfo",
    "CapturedGraph",
    "Executor",
    "Explanation",
    "Graph",
    "GraphBreakError",
    "GraphError",
    "InternalError",
    "ShadowError",
    "StaticFunction",
    "enable_to_static",
    "enable_to_static_guard",
    "explain",
    "from_fx",
    "graph_break",
    "graph_guard",
    "is_capturing",
    "not_to_static",
    "ops",
    "reset",
    "stats",
    "to_static",
]
