"""Shows what framejit does on real models, beside torch.compile(backend="eager") in the same process.

    ./dev demo [-- --models gpt,bert]

For each model: the graphs, breaks and operators of its capture; the time to capture it; what a warm call costs beyond its
kernels; and the largest difference from eager, of the outputs in inference, and of outputs, gradients and buffers after a
training step with dropout under the same seed.
"""

import functools

import capture
import contestants
import harness
import torch

harness.use_models()
import models  # noqa: E402

SEED = 0
SIDE = 64


def run(case, call):
    """All tensors that a user can see after one call, in training after one backward."""
    torch.manual_seed(SEED)
    result = capture.step(case, call)
    tensors = models.tensors_of(result)
    if case.training:
        tensors += [p.grad for p in case.model.parameters() if p.grad is not None]
        tensors += list(case.model.buffers())
    return [t.detach() for t in tensors]


def largest_difference(name, mode, ours):
    """The largest absolute difference between eager's tensors and framejit's, over a cold and a warm call."""
    eager, converted = models.build(name, mode, side=SIDE), models.build(name, mode, side=SIDE)
    call = ours.convert(converted.model)
    largest = 0.0
    for _ in range(2):
        expected, actual = run(eager, eager.model), run(converted, call)
        if len(expected) != len(actual):
            return float("nan")
        for one, other in zip(expected, actual):
            if one.numel() and not torch.equal(one, other):
                largest = max(largest, (one.double() - other.double()).abs().max().item())
        eager.model.zero_grad()
        converted.model.zero_grad()
    ours.reset()
    return largest


def glue(name, chosen):
    """us of guards and glue a call, by contestant, with a constant in the graph's place."""
    inputs = models.build(name, side=SIDE)
    calls = {}
    with torch.no_grad():
        for contestant in chosen:
            model = models.build(name, side=SIDE).model
            call = contestant.convert(model, contestants.constant_backend)
            calls[contestant.name] = functools.partial(call, *inputs.args, **inputs.kwargs)
            for _ in range(3):
                calls[contestant.name]()
        taken = harness.interleave(calls, repeats=15)
    for contestant in chosen:
        contestant.reset()
    return {key: harness.summarize(samples.cpu).median * 1e6 for key, samples in taken.items()}


def measure(name, chosen, repeats):
    ours, peer = chosen
    rows = capture.measure(name, "infer", chosen, repeats, SIDE)
    by_name = {row["contestant"]: row for row in rows}
    calls = glue(name, chosen)
    return {
        "model": name,
        **{key: by_name[ours.name][key] for key in ("graphs", "breaks", "ops")},
        "capture_ms": by_name[ours.name]["capture_ms"].median,
        "peer_capture_ms": by_name[peer.name]["capture_ms"].median,
        "call_us": calls[ours.name],
        "peer_call_us": calls[peer.name],
        "difference": largest_difference(name, "infer", ours),
        "training_difference": largest_difference(name, "train", ours),
    }


def show(rows):
    lines = [
        [
            row["model"],
            row["graphs"],
            row["breaks"],
            row["ops"],
            f"{row['capture_ms']:.1f}",
            f"{row['peer_capture_ms']:.0f}",
            f"{row['peer_capture_ms'] / max(row['capture_ms'], 1e-9):.0f} x",
            f"{row['call_us']:.1f}",
            f"{row['peer_call_us']:.1f}",
            f"{row['difference']:g}",
            f"{row['training_difference']:g}",
        ]
        for row in rows
    ]
    columns = ["model", "graphs", "breaks", "operators", "capture ms", "torch.compile ms", "faster"]
    columns += ["call us", "torch.compile us", "difference", "in training"]
    note = (
        "capture: first call less an eager call. call: guards and glue of a warm call, without the kernels. difference: "
        "largest absolute difference from eager; in training also of gradients and buffers. "
        "torch.compile runs with backend eager. Times are medians of thread CPU time, one thread."
    )
    facts = harness.environment()
    title = f"framejit on CPython {facts['python']}, torch {facts.get('torch')}, {facts['cpu']}"
    harness.show_table(title, columns, lines, note)


def main():
    parser = harness.parser(__doc__, "demo")
    parser.add_argument("--models", default="all", help="names of the zoo, or all")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = contestants.choose(arguments.contestants, "framejit,dynamo-eager")
    names = models.available() if arguments.models == "all" else arguments.models.split(",")
    harness.progress("warming up both")
    capture.warm_up(chosen)
    rows = []
    for name in names:
        harness.progress(f"{name} ({len(rows) + 1} of {len(names)})")
        rows.append(measure(name, chosen, arguments.repeats))
        harness.write_json(arguments.json, rows)
    show(rows)


if __name__ == "__main__":
    main()
