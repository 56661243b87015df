"""Reports: what was captured, under which guards, and why it broke."""

import collections
import copy

from framejit import _C

CacheInfo = collections.namedtuple("CacheInfo", ["hits", "entries", "graphs", "breaks"])
CacheInfo.__doc__ = "Of one StaticFunction: runs of captured segments, captures kept, those with operators, breaks."


class CapturedGraph:
    """One captured segment. `str(graph)` is its text.

    Attributes:
        ops: number of operators.
        backward: text of the graph of gradients, or None.
        guards: what the capture relies on, in words.
        location: "file:line in name" where the segment starts.
        reason, detail, stop_location: of the graph break that ends it; empty if it ends with the function.
        hint: what to change to avoid the break.
        hits: runs since it was captured.
        capture_s: seconds that its capture took.
        eager: nothing could be captured here; `reason` says why.
        sources: what each input is in the program, such as `self.weight`, in words.
        lines: (file, line) of what the capture followed, if it was made by `explain`.
        inputs, outputs, nodes: the graph as data, see `_C.captures`.
    """

    def __init__(self, record):
        self.text = record["graph"]
        self.backward = record["backward"]
        self.ops = record["ops"]
        self.guards = record["guards"]
        self.location = record["location"]
        self.breaks = record["exit"] != "return"
        self.eager = record["exit"] == "eager"
        self.reason = record["reason"]
        self.detail = record["detail"]
        self.stop_location = record["stop_location"]
        self.hits = record["hits"]
        self.capture_s = record["capture_s"]
        self.lines = record["lines"]
        self.inputs, self.outputs, self.nodes = record["inputs"], record["outputs"], record["nodes"]
        self.sources, self._program = record["sources"], record["program"]

    @property
    def hint(self):
        return _C.stop_reasons()[self.reason][1] if self.reason else ""

    def what(self):
        """What breaks here, without place and hint; '' if nothing does."""
        if not self.reason:
            return ""
        text = _C.stop_reasons()[self.reason][0]
        return text + " ({})".format(self.detail) if self.detail else text

    def why(self):
        """The break in words, or '' if there is none."""
        if not self.reason:
            return ""
        text = "{}: {}".format(self.stop_location or self.location, self.what())
        return text + ("; " + self.hint if self.hint else "")

    def graph(self):
        """The graph by itself, as a `framejit.Graph`: what the function computes, without guards, effects and gradients.

        Its inputs are those of the capture, parameters of modules too: `sources` says what each is.

        Raises:
            ValueError: nothing is captured here.
        """
        if self._program is None:
            raise ValueError("no graph at {}: {}".format(self.location, self.what() or "it has no operators"))
        return copy.copy(self._program)

    def to_fx(self):
        """The graph as a torch.fx.GraphModule, which runs, differentiates and pickles, and returns a tuple.

        Raises:
            GraphError: torch.fx cannot say what the graph does: grad mode changes in it, or it returns `.data` of a tensor.
            NotImplementedError: the graph draws from a generator.
            ValueError: nothing is captured here.
        """
        return self.graph().to_fx()

    def to_dot(self):
        """The graph in the language of Graphviz's `dot`.

        Returns:
            str: a box for each operator and each input that is used, an edge for each use of a value, named by it.
        """
        from framejit import _drawing  # imports what few need

        return _drawing.dot(self)

    def _repr_svg_(self):
        """What a notebook shows; nothing for a segment without operators."""
        from framejit import _drawing

        return _drawing.svg(self) if self.ops else None

    def __str__(self):
        return self.text

    def __repr__(self):
        return "<CapturedGraph at {}: {} ops{}>".format(
            self.location, self.ops, ", breaks: " + self.reason if self.breaks else ""
        )


def records(fn):
    """All segments of a StaticFunction, or of a module that went through to_static; also those that run eagerly."""
    return [CapturedGraph(record) for record in _C.captures(_static_function(fn))]


def captures(fn):
    return [record for record in records(fn) if not record.eager]


def _static_function(fn):
    static = getattr(fn, "_compiled_call_impl", None) if not isinstance(fn, _C.StaticFunction) else fn
    if not isinstance(static, _C.StaticFunction):
        raise TypeError("not made by to_static: {!r}".format(fn))
    return static


def graphs(fn):
    return [graph for graph in captures(fn) if graph.ops]


def guards(fn):
    return [graph.guards for graph in captures(fn)]


def code(fn):
    return _C.listing(fn)


def cache_info(fn):
    found = captures(fn)
    return CacheInfo(
        hits=sum(graph.hits for graph in found),
        entries=len(found),
        graphs=sum(graph.ops != 0 for graph in found),
        breaks=sum(graph.breaks for graph in found),
    )


class Explanation:
    """What `explain` found. `str()` of it is a report.

    Attributes:
        result: what the call returned.
        graphs: list of CapturedGraph, those with operators.
        captures: list of CapturedGraph, all that were made.
        breaks: list of CapturedGraph, those that end in a graph break, and where nothing could be captured.
        ops: number of operators in all graphs.
        stats: totals of the call, as `framejit.stats()`.
    """

    def __init__(self, result, found, totals):
        self.result = result
        self.stats = totals
        self.captures = [graph for graph in found if not graph.eager]
        self.graphs = [graph for graph in found if graph.ops]
        self.breaks = [graph for graph in found if graph.breaks]
        self.ops = sum(graph.ops for graph in found)

    def __str__(self):
        lines = [
            "graphs {}, operators {}, breaks {}, capture {:.1f} ms".format(
                self.stats["graphs"], self.stats["ops"], self.stats["breaks"], 1e3 * self.stats["capture_s"]
            )
        ]
        lines += ["break at " + graph.why() for graph in self.breaks]
        reasons = self.stats["break_reasons"]
        if reasons:
            lines.append("reasons: " + ", ".join("{} {}".format(name, n) for name, n in sorted(reasons.items())))
        for graph in self.graphs:
            lines += ["", "from {}, {:.2f} ms".format(graph.location, 1e3 * graph.capture_s), str(graph)]
            lines += ["guard: " + guard for guard in graph.guards]
        return "\n".join(lines)

    def to_html(self, path=None, title="framejit.explain"):
        """The report as one HTML page that needs no other file: source with what was captured, graphs drawn.

        Args:
            path: file to write; None writes none.
            title: heading of the page.

        Returns:
            str: the page.
        """
        from framejit import _report

        page = _report.render(self, title)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page


def explain(fn, *args, **kwargs):
    """Call `fn(*args, **kwargs)` once, captured anew, and report graphs, breaks, reasons and hints.

    Args:
        fn: what `to_static` takes, or what it returned. Its own captures are not touched.

    Returns:
        Explanation
    """
    import torch

    from framejit import _api

    if isinstance(fn, torch.nn.Module):
        static = _C.StaticFunction(fn._call_impl)
    else:
        static = _api._callable_to_static(fn, {"full_graph": False, "backend": None})
    before = _C.stats()
    noted = _C.set_notes_lines(True)
    try:
        result = static(*args, **kwargs)
    finally:
        _C.set_notes_lines(noted)
    return Explanation(result, records(static), _difference(before, _C.stats()))


def _difference(before, after):
    totals = {key: value - before[key] for key, value in after.items() if key != "break_reasons"}
    reasons = {name: count - before["break_reasons"].get(name, 0) for name, count in after["break_reasons"].items()}
    totals["break_reasons"] = {name: count for name, count in reasons.items() if count}
    return totals
