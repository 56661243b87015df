"""Growth of the capture time with the depth of a model, with the length of a chain of operators and with the number of
breaks in a function, beside torch.compile in the same process.

    python benchmarks/growth.py [--depths 2,4,8,16,32,64] [--lengths 100,300,1000,3000,5000] [--breaks 5,10,20,40,80]

The model is the GPT of the zoo with narrow layers, the chain one loop of elementwise operators, the function a straight
line in which each operator is followed by a call that is not captured, so that their eager calls are small beside
their capture. Linear growth has an exponent of 1 and the same time a layer, an operator or a break at each size.
framejit's time is the larger of two: the first call less an eager call, a difference that may drown in the
noise of the eager call, and the time of its own clock.
"""

import functools
import math

import capture
import contestants
import harness
import torch

harness.use_models()
from models.handwritten import GPT  # noqa: E402

# A unit is a layer of four matrix products and more, one operator, or one operator and a break.
KINDS = {"depth": "layers of a GPT", "length": "operators in a chain", "breaks": "breaks in a function"}


class Chain(torch.nn.Module):
    def __init__(self, length):
        super().__init__()
        self.rounds = length // 5

    def forward(self, x):
        for _ in range(self.rounds):
            x = torch.sin(x * 0.9 + 0.1).tanh() - 0.1
        return x


def deep(depth):
    torch.manual_seed(0)
    model = GPT(layers=depth, width=32, heads=4, vocab=100, length=16, dropout=0.0).eval()
    return model, torch.randint(0, 100, (1, 16))


def long(length):
    return Chain(length), torch.linspace(-1, 1, 16)


def broken(breaks):
    source = ["def function(x):"] + ["    x = x * 0.9", "    print('', end='')"] * breaks + ["    return x"]
    names = {}
    exec(compile("\n".join(source), __file__, "exec"), names)
    return names["function"], torch.linspace(-1, 1, 16)


MAKERS = {"depth": deep, "length": long, "breaks": broken}


def measure(kind, size, chosen, repeats):
    make = MAKERS[kind]
    model, argument = make(size)
    eager = functools.partial(model, argument)
    eager()
    base = harness.summarize([harness.time_once(eager).cpu[0] for _ in range(5)]).median
    taken = {contestant.name: [] for contestant in chosen}
    converted = {contestant.name: contestant.convert(make(size)[0]) for contestant in chosen}
    for turn in range(repeats):
        for contestant in chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]:
            contestant.reset()
            sample = harness.time_once(functools.partial(converted[contestant.name], argument))
            taken[contestant.name].append(max(sample.cpu[0] - base, contestant.own_clock()) * 1e3)
    return [
        {"kind": kind, "size": size, "contestant": name, "eager_ms": base * 1e3, "ms": harness.summarize(samples)}
        for name, samples in taken.items()
    ]


def exponent(points):
    """Slope of log(time) over log(size), by least squares."""
    logs = [(math.log(size), math.log(ms)) for size, ms in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def show(kind, rows, chosen):
    columns, lines = [KINDS[kind]], []
    for contestant in chosen:
        columns += [contestant.label, "for one"]
    for size in dict.fromkeys(row["size"] for row in rows):
        line = [size]
        for contestant in chosen:
            row = next(r for r in rows if r["size"] == size and r["contestant"] == contestant.name)
            line += [row["ms"].text(), f"{row['ms'].median / size:.4f}"]
        lines.append(line)
    last = ["exponent, last four"]
    for contestant in chosen:
        points = [(r["size"], r["ms"].median) for r in rows if r["contestant"] == contestant.name]
        last += [f"{exponent(points[-4:]):.2f}" if len(points) > 1 else "", ""]
    harness.show_table(
        f"capture time by {kind}", columns, lines + [last], "ms of thread CPU time: median [middle half]"
    )


def main():
    parser = harness.parser(__doc__, "growth")
    parser.add_argument("--depths", default="2,4,8,16,32,64")
    parser.add_argument("--lengths", default="100,300,1000,3000,5000")
    parser.add_argument("--breaks", default="5,10,20,40,80")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = contestants.choose(arguments.contestants, "framejit,dynamo-eager")
    capture.warm_up(chosen)
    rows = []
    with torch.no_grad():
        sizes_of = {"depth": arguments.depths, "length": arguments.lengths, "breaks": arguments.breaks}
        for kind, sizes in sizes_of.items():
            for size in map(int, filter(None, sizes.split(","))):
                harness.progress(f"{kind} {size}")
                rows += measure(kind, size, chosen, arguments.repeats)
                harness.write_json(arguments.json, rows)
    for kind in KINDS:
        if of_kind := [row for row in rows if row["kind"] == kind]:
            show(kind, of_kind, chosen)


if __name__ == "__main__":
    main()
