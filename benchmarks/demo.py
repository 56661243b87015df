"""What framejit does on real models, a table a model, beside torch.compile(backend="eager") in the same process.

    ./dev demo [-- --models gpt,resnet50 --train]

Capture time is the first call less an eager call. Overhead is what a call costs beside its kernels: it is measured with a
back end that gives a constant in the graph's place, since the kernels take thousands of times longer. The difference is
the largest one of any output from the model run eagerly on the same inputs and seed, over a cold and a warm call; in
training, with dropout on, also of any gradient and any buffer.
"""

import functools
import gc
import sys

import capture
import contestants
import harness
import torch

harness.use_models()
import models  # noqa: E402

MODELS = "mlp,gpt,resnet50,mobilenet_v3,vit,bert,gpt2,llama"
OURS = "framejit"


def results_of(case, call):
    """Every tensor that a run gives: outputs, and in training the gradients and the buffers."""
    torch.manual_seed(0)
    case.model.zero_grad()
    tensors = models.tensors_of(capture.step(case, call))
    if case.training:
        tensors += [parameter.grad for parameter in case.model.parameters() if parameter.grad is not None]
        tensors += [buffer.clone() for buffer in case.model.buffers()]
    return [tensor.detach() for tensor in tensors]


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


def difference_over_two_calls(name, mode, contestant, side):
    """The largest difference from eager in a cold and in a warm call, each from the same state."""
    eager, converted = models.build(name, mode, side=side), models.build(name, mode, side=side)
    call = contestant.convert(converted.model)
    runs = [(results_of(converted, call), results_of(eager, eager.model)) for _ in range(2)]
    return max(largest_difference(got, expected) for got, expected in runs)


def measure_capture(name, mode, contestant, side, repeats):
    """{row: value} of the first call: counts and capture time."""
    eager, case = models.build(name, mode, side=side), models.build(name, mode, side=side)
    call = contestant.convert(case.model)
    run_eager = functools.partial(capture.step, eager, eager.model)
    run_eager()
    taken = []
    for _ in range(repeats):
        reset(contestant)
        cold = harness.time_once(functools.partial(capture.step, case, call)).cpu[0]
        taken.append(cold - harness.time_once(run_eager).cpu[0])
    graphs, breaks, operators = counts_of(contestant)
    seconds = max(harness.summarize(taken).median, 1e-9)
    return {
        "graphs": str(graphs),
        "breaks": str(breaks),
        "operators": str(operators),
        "capture": f"{seconds * 1e3:.1f} ms",
        "capture_s": seconds,
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


def show_model(name, mode, chosen, arguments):
    """Measure one model and print its table. Gives the row for the JSON."""
    side, ours = arguments.side, chosen[0]
    columns = {c.name: measure_capture(name, mode, c, side, arguments.repeats) for c in chosen}
    differences = {"difference from eager": difference_over_two_calls(name, mode, ours, side)}
    if mode == "infer":
        differences["difference in training"] = difference_over_two_calls(name, "train", ours, side)
    overhead = measure_overhead(name, chosen, side) if mode == "infer" else {}
    lines = [[row] + [columns[c.name][row] for c in chosen] for row in ("graphs", "breaks", "operators", "capture")]
    if overhead:
        lines.append(["overhead of a call"] + [f"{overhead[c.name] * 1e6:.1f} us" for c in chosen])
    for row, value in differences.items():
        lines.append([row, f"{value:.1e}" if value else "none, bit for bit"] + [""] * (len(chosen) - 1))
    note = ""
    if len(chosen) > 1:
        ratio = columns[chosen[1].name]["capture_s"] / columns[ours.name]["capture_s"]
        note = f"captured {ratio:.0f} times faster than {chosen[1].label}\n"
    title = f"{name}, {'inference' if mode == 'infer' else 'training step'}"
    harness.show_table(title, [""] + [c.label for c in chosen], lines, note)
    return {"model": name, "mode": mode, "columns": columns, "overhead_s": overhead, "differences": differences}


def is_as_promised(row):
    """One graph, no break, and eager's results bit for bit."""
    counts = row["columns"][OURS]
    return counts["graphs"] == "1" and counts["breaks"] == "0" and not any(row["differences"].values())


def main():
    parser = harness.parser(__doc__, "demo")
    parser.add_argument("--models", default=MODELS, help="names of the zoo, or all")
    parser.add_argument("--train", action="store_true", help="training steps, with the backward, as well")
    parser.add_argument("--repeats", type=int, default=3, help="captures to time")
    parser.add_argument("--side", type=int, default=64, help="height and width of the images")
    arguments = parser.parse_args()
    names = models.available() if arguments.models == "all" else arguments.models.split(",")
    chosen = contestants.choose(arguments.contestants, OURS + ",dynamo-eager")
    if chosen[0].name != OURS:
        sys.exit(f"the first contestant of the demo has to be {OURS}")
    torch.set_num_threads(1)
    capture.warm_up(chosen)
    facts = harness.environment()
    print(f"Python {facts['python']}, torch {torch.__version__}, {facts['cpu']}\n")
    rows = []
    for mode in ("infer", "train") if arguments.train else ("infer",):
        for name in names:
            if name not in models.available():
                harness.progress(f"{name}: its package is not installed")
                continue
            rows.append(show_model(name, mode, chosen, arguments))
            harness.write_json(arguments.json, rows)
            gc.collect()
    odd = [f"{row['model']} ({row['mode']})" for row in rows if not is_as_promised(row)]
    if odd:
        print("not one graph without a break and bit for bit equal to eager: " + ", ".join(odd))
    sys.exit(bool(odd))


if __name__ == "__main__":
    main()
