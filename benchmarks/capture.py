"""Time to capture a model: its first call less an eager call, beside torch.compile in the same process.

    python benchmarks/capture.py [--models gpt,resnet50,bert] [--mode infer|train|both]

In inference torch.compile runs with backend "eager", which captures and does nothing else; in training, where framejit
records the backward with the forward, with "aot_eager", and the time is that of forward and backward. Imports are warm:
each contestant has captured a small function before. The images are small, since capture does not depend on their size
and the eager call that is subtracted would only add noise.
"""

import functools

import contestants
import harness
import torch

harness.use_models()
import models  # noqa: E402


def step(case, call):
    """The work whose first run captures: a forward, in training with its backward."""
    if not case.training:
        with torch.no_grad():
            return call(*case.args, **case.kwargs)
    result = call(*case.args, **case.kwargs)
    models.loss_of(result).backward()
    return result


def warm_up(chosen):
    """Let each contestant import and initialise what it needs."""
    for contestant in chosen:
        for requires_grad in (False, True):
            x = torch.ones(3, requires_grad=requires_grad)
            result = contestant.convert(lambda t: torch.relu(t) * 2 + 1)(x)
            if requires_grad:
                result.sum().backward()
        contestant.reset()


def measure(name, mode, chosen, repeats, side):
    """Rows of one model: for each contestant the first call less the eager call, in ms."""
    eager = models.build(name, mode, side=side)
    cases = {c.name: models.build(name, mode, side=side) for c in chosen}
    converted = {c.name: c.convert(cases[c.name].model) for c in chosen}
    run_eager = functools.partial(step, eager, eager.model)
    run_eager()
    eager_taken = harness.Samples([], [])
    first = {c.name: harness.Samples([], []) for c in chosen}
    reported = {c.name: [] for c in chosen}
    for turn in range(repeats):
        for contestant in [contestants.Contestant()] + chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]:
            if contestant.name == "eager":
                sample, into = harness.time_once(run_eager), eager_taken
            else:
                contestant.reset()
                run = functools.partial(step, cases[contestant.name], converted[contestant.name])
                sample, into = harness.time_once(run), first[contestant.name]
                if contestant.name == "framejit":
                    reported["framejit"].append(contestant.package.stats())
            into.cpu += sample.cpu
            into.wall += sample.wall
    base_cpu = harness.summarize(eager_taken.cpu).median
    base_wall = harness.summarize(eager_taken.wall).median
    rows = []
    for contestant in chosen:
        samples = first[contestant.name]
        row = {
            "model": name,
            "mode": mode,
            "contestant": contestant.name,
            "eager_ms": base_cpu * 1e3,
            "capture_ms": harness.summarize([(t - base_cpu) * 1e3 for t in samples.cpu]),
            "capture_wall_ms": harness.summarize([(t - base_wall) * 1e3 for t in samples.wall]),
        }
        if reported[contestant.name]:
            stats = reported[contestant.name][-1]
            row.update({key: stats[key] for key in ("captures", "graphs", "ops", "breaks", "fallbacks")})
            row["reported_ms"] = harness.summarize([s["capture_s"] * 1e3 for s in reported[contestant.name]])
        rows.append(row)
        contestant.reset()
    return rows


def show(rows, mode):
    """One line per model, the contestants beside each other."""
    of_mode = [row for row in rows if row["mode"] == mode]
    lines = []
    for name in dict.fromkeys(row["model"] for row in of_mode):
        by_name = {row["contestant"]: row for row in of_mode if row["model"] == name}
        peers = [row for key, row in by_name.items() if key != "framejit"]
        ours = by_name.get("framejit")
        line = [name, f"{next(iter(by_name.values()))['eager_ms']:.1f}"]
        line += [row["capture_ms"].text(0) for row in peers]
        if ours:
            line.append(ours["capture_ms"].text())
            line.append(ours["reported_ms"].text())
            line.append(f"{ours['graphs']} / {ours['breaks']} / {ours['ops']}")
            line += [
                f"{row['capture_ms'].median / max(ours['capture_ms'].median, ours['reported_ms'].median):.0f} x"
                for row in peers
            ]
        lines.append(line)
    peers = list(dict.fromkeys(row["contestant"] for row in of_mode if row["contestant"] != "framejit"))
    columns = ["model", "eager call"] + peers
    if any(row["contestant"] == "framejit" for row in of_mode):
        columns += ["framejit", "own clock", "graphs / breaks / ops"] + [f"faster than {peer}" for peer in peers]
    what = "forward" if mode == "infer" else "forward and backward"
    note = "median [middle half] of thread CPU time of the first call less an eager call"
    harness.show_table(f"capture of the {what}, ms", columns, lines, note)


def main():
    parser = harness.parser(__doc__, "capture")
    parser.add_argument("--models", default="mlp,gpt,resnet50,bert", help="names of the zoo, or all")
    parser.add_argument("--mode", default="both", choices=("infer", "train", "both"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--side", type=int, default=64, help="height and width of the images")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = models.available() if arguments.models == "all" else arguments.models.split(",")
    rows = []
    for mode in ("infer", "train") if arguments.mode == "both" else (arguments.mode,):
        backend = "dynamo-eager" if mode == "infer" else "dynamo-aot_eager"
        chosen = contestants.choose(arguments.contestants, f"framejit,{backend}")
        warm_up(chosen)
        for name in names:
            harness.progress(f"{name}, {mode}")
            rows += measure(name, mode, chosen, arguments.repeats, arguments.side)
            harness.write_json(arguments.json, rows)
        show(rows, mode)


if __name__ == "__main__":
    main()
