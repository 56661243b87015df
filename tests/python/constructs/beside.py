"""torch.compile's account of a construct, to stand beside framejit's."""

from __future__ import annotations

import re

# What is not asked of torch.compile: traceback lines, an exception's chain, which object is which, the version counter.
NOT_COMPARED = re.compile(r" at .* line \d+$|suppress_context|__context__|__cause__|same object as|^class |^cell \d")
NOT_READ = re.compile(r"#\d+ | storage \d+| version_changed=\w+")


def measure_torch_compile(construct):
    """{"right", "graphs", "breaks"} of torch.compile with a back end that runs the graph as it is."""
    import torch._dynamo

    graphs = []

    def keep(graph_module, example_inputs):
        graphs.append(graph_module.code)
        return graph_module.forward

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    case = construct.case(torch.compile(construct.fn, backend=keep))
    found = {"right": same_accounts(case)}
    found.update(graphs=len(graphs), breaks=sum(torch._dynamo.utils.counters["graph_break"].values()))
    if construct.both_sides:
        text = "\n".join(graphs)
        found["both_sides"] = "sin()" in text and "cos()" in text
    found["right"] = found["right"] and same_accounts(case)
    return found


def same_accounts(case):
    eager, _ = case._account(case.fn, None)
    compiled, _ = case._account(case.compiled, None)
    return compared(eager) == compared(compiled)


def compared(lines):
    return [NOT_READ.sub("", line) for line in lines if not NOT_COMPARED.search(line)]
