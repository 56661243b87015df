"""Steady state and compile time: eager, framejit with its back ends, and torch.compile with inductor, in one process.

    python benchmarks/steady.py [--only fused,overhead,inference,training,steps,gpt_train] [--threads 1] [--device cuda]

"first call" is the first call's wall clock less an eager call: capture and compilation. Kernels of framejit come from an
empty folder of its own for each run, inductor's from an empty one as well. "warm" is wall clock per call, the contestants
in turns; "products alone" are eager's matrix products, convolutions and attention without the rest. The cases are those of
`steady_cases.py`.
"""

import os
import tempfile

SCRATCH = tempfile.TemporaryDirectory(prefix="framejit-steady-")
os.environ["FRAMEJIT_CACHE_DIR"] = os.path.join(SCRATCH.name, "kernels")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(SCRATCH.name, "inductor")

import math  # noqa: E402

import contestants  # noqa: E402
import harness  # noqa: E402
import products  # noqa: E402
import steady_cases  # noqa: E402
import torch  # noqa: E402

PRODUCTS = "products"


def measure(name, chosen, repeats, device):
    """A row for each contestant: first call and warm call in ms, and the peak of memory of a warm call."""
    finish = harness.nothing if device == "cpu" else torch.cuda.synchronize

    def made(convert):
        with torch.device(device):
            return steady_cases.CASES[name](convert)

    eager = made(lambda target: target)
    eager()
    base = min(harness.time_once(eager, finish).wall[0] for _ in range(5))
    calls, first = {}, {}
    for contestant in chosen:
        contestant.reset()
        calls[contestant.name] = made(contestant.convert)
        first[contestant.name] = (harness.time_once(calls[contestant.name], finish).wall[0] - base) * 1e3
    # Eager's products alone, as its kernels do them.
    calls[PRODUCTS] = products.products_of(eager)
    taken = harness.interleave(calls, repeats, finish=finish)
    products_ms = harness.summarize([t * 1e3 for t in taken.pop(PRODUCTS).wall])
    return [
        {
            "case": name,
            "group": next(group for group, cases in steady_cases.GROUPS.items() if name in cases),
            "contestant": contestant.name,
            "first_ms": 0.0 if contestant.name == "eager" else first[contestant.name],
            "warm_ms": harness.summarize([t * 1e3 for t in taken[contestant.name].wall]),
            "faster": harness.summarize(
                [a / b for a, b in zip(taken[chosen[0].name].wall, taken[contestant.name].wall)]
            ),
            "peak_bytes": harness.peak_memory(calls[contestant.name], device),
            "products_ms": products_ms,
        }
        for contestant in chosen
    ]


def rows_products(of_case):
    return next(iter(of_case.values()))["products_ms"].text(4)


def show(rows, chosen):
    """A line for each case, and the geometric mean of what each contestant gains over the first, paired by round."""
    compiled = [c for c in chosen if c.name != "eager"]
    lines = []
    for name in dict.fromkeys(row["case"] for row in rows):
        of_case = {row["contestant"]: row for row in rows if row["case"] == name}
        line = [name] + [of_case[c.name]["warm_ms"].text(4) for c in chosen]
        line.append(rows_products(of_case))
        line += [f"{of_case[c.name]['faster'].median:.2f}" for c in chosen[1:]]
        lines.append(line + [f"{of_case[c.name]['first_ms']:.0f}" for c in compiled])
    means = []
    for contestant in chosen[1:]:
        gains = [math.log(row["faster"].median) for row in rows if row["contestant"] == contestant.name]
        means.append(f"{math.exp(sum(gains) / len(gains)):.2f}")
    lines.append(["geometric mean"] + [""] * (len(chosen) + 1) + means + [""] * len(compiled))
    columns = ["case"] + [f"{c.label}, warm" for c in chosen] + ["products alone"]
    columns += [f"{c.label}, times faster" for c in chosen[1:]]
    columns += [f"{c.label}, first" for c in compiled]
    harness.show_table("steady state and first call, ms", columns, lines, "median [middle half] of wall clock")
    peaks = [
        [name] + [f"{row['peak_bytes'] / 2**20:.2f}" for row in rows if row["case"] == name]
        for name in dict.fromkeys(row["case"] for row in rows)
    ]
    harness.show_table("peak memory of a warm call, MiB", ["case"] + [c.label for c in chosen], peaks)


def names_of(text):
    """Names of cases out of names of groups and cases."""
    names = []
    for word in text.split(","):
        names += steady_cases.GROUPS.get(word, [word])
    return names


def main():
    parser = harness.parser(__doc__, "steady")
    parser.add_argument("--only", default="fused,overhead", help=f"cases or groups: {', '.join(steady_cases.GROUPS)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where all tensors of the cases lie")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    chosen = contestants.choose(arguments.contestants, "eager,framejit,framejit-native,dynamo-inductor")
    for contestant in chosen:  # imports and first uses are no part of it
        contestant.convert(lambda x: torch.relu(x) * 2 + 1)(torch.ones(3, device=arguments.device))
    rows = []
    for name in names_of(arguments.only):
        harness.progress(name)
        rows += measure(name, chosen, arguments.repeats, arguments.device)
        harness.write_json(arguments.json, rows)
    show(rows, chosen)


if __name__ == "__main__":
    main()
