"""What framejit does on real models, a table a model, beside torch.compile(backend="eager") in the same process.

    ./dev demo [-- --models gpt,resnet50 --train]

Capture time is the first call less an eager call. Overhead is what a call costs beside its kernels: it is measured with a
back end that gives a constant in the graph's place, since the kernels take thousands of times longer. The difference is
the largest one of any output, in training of any gradient too, from the model run eagerly on the same inputs and seed.
"""

import functools
import gc
import sys

import contestants
import harness
import torch

harness.use_models()
import models  # noqa: E402

MODELS = "mlp,gpt,resnet50,mobilenet_v3,vit,bert,gpt2,llama"
OURS = "framejit"


def results_of(case, call):
    """Every tensor that a run gives: outputs, and in training the gradients."""
    torch.manual_seed(0)
    if not case.training:
        with torch.no_grad():
            return models.tensors_of(call(*case.args, **case.kwargs))
    case.model.zero_grad()
    result = call(*case.args, **case.kwargs)
    models.loss_of(result).backward()
    grads = [parameter.grad for parameter in case.model.parameters() if parameter.grad is not None]
    return models.tensors_of(result) + grads


def largest_difference(got, expected):
    """0.0 only if the tensors are equal bit for bit; inf if they do not correspond."""
    if len(got) != len(expected):
        return float("inf")
    largest = 0.0
    for a, b in zip(got, expected):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not torch.equal(a, b):
            largest = max(largest, (a.double() - b.double()).abs().max().item())
    return largest


def dynamo_counts():
    """graphs, breaks and operators that torch.compile counted since its last reset."""
    from torch._dynamo.utils import counters

    stats = counters["stats"]
    return stats["unique_graphs"], sum(counters["graph_break"].values()), stats["calls_captured"]


def counts_of(contestant):
    if contestant.name == OURS:
        stats = contestant.package.stats()
        return stats["graphs"], stats["breaks"], stats["ops"]
    return dynamo_counts()


def reset(contestant):
    contestant.reset()
    if contestant.name != OURS:
        from torch._dynamo.utils import counters

        counters.clear()


def measure_capture(name, mode, contestant, eager_seconds, expected, side):
    """{row: value} of the first call: counts, capture time, difference."""
    reset(contestant)
    case = models.build(name, mode, side=side)
    call = contestant.convert(case.model)
    got = []
    seconds = harness.time_once(lambda: got.extend(results_of(case, call))).cpu[0]
    graphs, breaks, operators = counts_of(contestant)
    again = largest_difference(results_of(case, call), expected) if mode == "infer" else 0.0
    return {
        "graphs": str(graphs),
        "breaks": str(breaks),
        "operators": str(operators),
        "capture": f"{max(seconds - eager_seconds, 0) * 1e3:.1f} ms",
        "difference": max(largest_difference(got, expected), again),
        "capture_s": max(seconds - eager_seconds, 1e-9),
    }


def measure_overhead(name, chosen, side):
    """{contestant: seconds a call} without the kernels, in inference."""
    case = models.build(name, side=side)
    calls = {}
    with torch.no_grad():
        for contestant in chosen:
            reset(contestant)
            model = models.build(name, side=side).model
            converted = contestant.convert(model, contestants.constant_backend)
            calls[contestant.name] = functools.partial(converted, *case.args, **case.kwargs)
            calls[contestant.name]()
        taken = harness.interleave(calls, repeats=15)
    return {key: harness.summarize(samples.cpu).median for key, samples in taken.items()}


def show_model(name, mode, chosen, side):
    """Measure one model and print its table. True if framejit's results equal eager's bit for bit, in one graph."""
    case = models.build(name, mode, side=side)
    expected = results_of(case, case.model)
    eager_seconds = min(harness.time_once(lambda: results_of(case, case.model)).cpu[0] for _ in range(3))
    columns = {c.name: measure_capture(name, mode, c, eager_seconds, expected, side) for c in chosen}
    overhead = measure_overhead(name, chosen, side)
    lines = [[row] + [columns[c.name][row] for c in chosen] for row in ("graphs", "breaks", "operators", "capture")]
    lines.append(["overhead of a call"] + [f"{overhead[c.name] * 1e6:.1f} us" for c in chosen])
    differences = [columns[c.name]["difference"] for c in chosen]
    lines.append(["difference from eager"] + [f"{d:.1e}" if d else "none, bit for bit" for d in differences])
    what = "inference" if mode == "infer" else "training step"
    title = f"{name}, {what}: {sum(p.numel() for p in case.model.parameters()) / 1e6:.1f} M parameters, "
    title += f"an eager call takes {eager_seconds * 1e3:.0f} ms"
    note = ""
    if len(chosen) > 1:
        ours, theirs = columns[chosen[0].name]["capture_s"], columns[chosen[1].name]["capture_s"]
        note = f"captured {theirs / ours:.0f} times faster than {chosen[1].label}\n"
    harness.show_table(title, [""] + [c.label for c in chosen], lines, note)
    return differences[0] == 0 and columns[OURS]["graphs"] == "1" and columns[OURS]["breaks"] == "0"


def warm_up(chosen):
    """Import and initialise what the first capture of a process needs, which is no model's cost."""
    for contestant in chosen:
        contestant.convert(lambda t: torch.relu(t) * 2 + 1)(torch.ones(3))
        reset(contestant)


def main():
    parser = harness.parser(__doc__, "demo")
    parser.add_argument("--models", default=MODELS, help="names of the zoo, or all")
    parser.add_argument("--train", action="store_true", help="training steps, with the backward, as well")
    parser.add_argument("--side", type=int, default=64, help="height and width of the images")
    arguments = parser.parse_args()
    names = models.available() if arguments.models == "all" else arguments.models.split(",")
    chosen = contestants.choose(arguments.contestants, OURS + ",dynamo-eager")
    torch.set_num_threads(1)
    warm_up(chosen)
    facts = harness.environment()
    print(f"Python {facts['python']}, torch {torch.__version__}, {facts['cpu']}\n")
    odd = []
    for mode in ("infer", "train") if arguments.train else ("infer",):
        for name in names:
            if name not in models.available():
                harness.progress(f"{name}: its package is not installed")
                continue
            if not show_model(name, mode, chosen, arguments.side):
                odd.append(f"{name} ({mode})")
            gc.collect()
    if odd:
        print("not one graph without a break and bit for bit equal to eager: " + ", ".join(odd))
    sys.exit(bool(odd))


if __name__ == "__main__":
    main()
