"""Growth of the capture time with the depth of the model, beside torch.compile in the same process.

    python benchmarks/depth.py [--depths 2,4,8,16,32,64]

The model is the GPT of the zoo with narrow layers, so that its eager call is small beside its capture. Linear growth has
an exponent of 1 and the same time a layer at each depth. framejit's time is the larger of two: the first call less an
eager call, a difference that may drown in the noise of the eager call, and the time of its own clock.
"""

import functools
import math

import capture
import contestants
import harness
import torch

harness.use_models()
from models.handwritten import GPT  # noqa: E402


def model_of(depth):
    torch.manual_seed(0)
    return GPT(layers=depth, width=32, heads=4, vocab=100, length=16, dropout=0.0).eval()


def measure(depth, chosen, repeats):
    tokens = torch.randint(0, 100, (1, 16))
    models = {contestant.name: model_of(depth) for contestant in chosen}
    eager = functools.partial(model_of(depth), tokens)
    eager()
    base = harness.summarize([harness.time_once(eager).cpu[0] for _ in range(5)]).median
    taken = {contestant.name: [] for contestant in chosen}
    converted = {contestant.name: contestant.convert(models[contestant.name]) for contestant in chosen}
    for turn in range(repeats):
        for contestant in chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]:
            contestant.reset()
            sample = harness.time_once(functools.partial(converted[contestant.name], tokens))
            taken[contestant.name].append(max(sample.cpu[0] - base, contestant.own_clock()) * 1e3)
    return [
        {"depth": depth, "contestant": name, "eager_ms": base * 1e3, "capture_ms": harness.summarize(samples)}
        for name, samples in taken.items()
    ]


def exponent(points):
    """Slope of log(time) over log(depth), by least squares."""
    logs = [(math.log(depth), math.log(ms)) for depth, ms in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def show(rows, chosen):
    columns, lines = ["depth"], []
    for contestant in chosen:
        columns += [contestant.label, "a layer"]
    for depth in dict.fromkeys(row["depth"] for row in rows):
        line = [depth]
        for contestant in chosen:
            row = next(r for r in rows if r["depth"] == depth and r["contestant"] == contestant.name)
            line += [row["capture_ms"].text(), f"{row['capture_ms'].median / depth:.3f}"]
        lines.append(line)
    last = ["exponent, last four"]
    for contestant in chosen:
        points = [(r["depth"], r["capture_ms"].median) for r in rows if r["contestant"] == contestant.name]
        last += [f"{exponent(points[-4:]):.2f}" if len(points) > 1 else "", ""]
    note = "ms of thread CPU time: median [middle half]"
    harness.show_table("capture time by depth", columns, lines + [last], note)


def main():
    parser = harness.parser(__doc__, "depth")
    parser.add_argument("--depths", default="2,4,8,16,32,64")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = contestants.choose(arguments.contestants, "framejit,dynamo-eager")
    capture.warm_up(chosen)
    rows = []
    with torch.no_grad():
        for depth in map(int, arguments.depths.split(",")):
            harness.progress(f"depth {depth}")
            rows += measure(depth, chosen, arguments.repeats)
            harness.write_json(arguments.json, rows)
    show(rows, chosen)


if __name__ == "__main__":
    main()
