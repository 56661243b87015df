"""torch.compile's account of a construct, to stand beside framejit's."""

from __future__ import annotations

import re

import torch

# What is not asked of torch.compile: traceback lines, an exception's chain and what else hangs on it, which object is
# which, the version counter, and the marks that it leaves on tensors.
NOT_COMPARED = re.compile(
    r" at .* line \d+$|suppress_context|__context__|__cause__|same object as|^class |^cell \d|_dynamo_|^raised\.(?!args)"
)
NOT_READ = re.compile(r"#\d+ | storage \d+| version_changed=\w+")


def load_torch_compile():
    """Import what it imports when first used, seconds long, here once rather than in every fork."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    torch._dynamo.reset()


def measure_torch_compile(construct):
    """{"right", "graphs", "breaks"} of torch.compile with a back end that runs the graph as it is."""
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
    try:
        compiled, _ = case._account(case.compiled, None)
    except torch._subclasses.fake_tensor.DataDependentOutputException:
        return False  # what it raised holds tensors without values: not eager's exception
    return compared(eager) == compared(compiled)


def compared(lines):
    """The lines without what is not asked; attributes may have been set in another order, text not printed in one."""
    kept = [NOT_READ.sub("", line) for line in lines if not NOT_COMPARED.search(line)]
    return sorted(kept, key=lambda line: "" if line.startswith("printed: ") else line)
