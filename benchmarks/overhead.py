"""What a warm call costs beyond its kernels, beside eager and torch.compile(backend="eager") in the same process.

    python benchmarks/overhead.py [--only add,inputs,models,breaks,entries]

Two figures a case. "beyond eager": the call less eager's own call, the median over rounds of paired differences; it is
negative where skipping Python saves more than the guards cost. "guards and glue": the same call with a back end that
gives a constant instead of running the graph, for models whose kernels take so long that a difference of two calls would
be noise. Both contestants get the same back end.
"""

import functools

import contestants
import functions
import harness
import torch

harness.use_models()
import models  # noqa: E402

SEGMENTS = 6  # of a function with five breaks


class Report:
    """Collects rows, and writes them after each case."""

    def __init__(self, arguments, chosen):
        self.arguments = arguments
        self.chosen = chosen
        self.rows = []

    def add(self, case, taken, **facts):
        eager = taken.get("eager")
        for name, samples in taken.items():
            row = {"case": case, "contestant": name, "us": harness.summarize([t * 1e6 for t in samples.cpu])}
            row["wall_us"] = harness.summarize([t * 1e6 for t in samples.wall])
            if eager is not None and name != "eager":
                beyond = [t * 1e6 for t in harness.difference(samples, eager)]
                row["beyond_eager_us"] = harness.summarize(beyond)
            row.update(facts)
            self.rows.append(row)
        harness.write_json(self.arguments.json, self.rows)


def calls_of(report, target, arguments, keywords, backend=None):
    """{name: a call without arguments} of all contestants, already captured."""
    calls = {}
    for contestant in report.chosen:
        if backend is not None and contestant.name == "eager":
            continue
        converted = contestant.convert(target() if callable(target) else target, backend)
        calls[contestant.name] = functools.partial(converted, *arguments, **keywords)
        for _ in range(3):
            calls[contestant.name]()
    return calls


def reset(report):
    for contestant in report.chosen:
        contestant.reset()


def measure_function(report, case, function, arguments, **facts):
    harness.progress(case)
    calls = calls_of(report, lambda: function, arguments, {})
    report.add(case, harness.interleave(calls, report.arguments.repeats), **facts)
    reset(report)


def measure_add(report):
    x = torch.randn(4)
    with torch.no_grad():
        measure_function(report, "x + 1", functions.add_one, (x,))
    measure_function(report, "x + 1, grad mode", functions.add_one, (x,))
    measure_function(report, "x + 1, x requires grad", functions.add_one, (torch.randn(4, requires_grad=True),))


def measure_inputs(report):
    with torch.no_grad():
        for count in (10, 100):
            tensors = [torch.randn(4) for _ in range(count)]
            measure_function(report, f"a list of {count} tensors", functions.sum_list, (tensors,))
            measure_function(report, f"{count} tensor arguments", functions.sum_arguments(count), tensors)
            measure_function(
                report, f"{count} attributes of an object", functions.read_attributes(count), (torch.randn(4),)
            )


def measure_models(report):
    """Guards and glue alone, by a constant in the graph's place."""
    for name in report.arguments.models.split(","):
        harness.progress(f"{name}, guards and glue")
        inputs = models.build(name, side=64)
        with torch.no_grad():
            calls = calls_of(
                report,
                lambda name=name: models.build(name, side=64).model,
                inputs.args,
                inputs.kwargs,
                contestants.constant_backend,
            )
            report.add(f"{name}, guards and glue", harness.interleave(calls, report.arguments.repeats))
        reset(report)


def measure_breaks(report):
    x = torch.randn(64, 64)
    with torch.no_grad():
        for case, function in (("five prints", functions.five_prints), ("five branches", functions.five_branches)):
            measure_function(report, case, function, (x,), segments=SEGMENTS)


def measure_entries(report):
    """Several entries of one function: the cost of a hit as their number grows."""
    with torch.no_grad():
        for count in (1, 2, 4, 8):
            inputs = [torch.randn(4 + index) for index in range(count)]
            harness.progress(f"{count} shapes in turn")
            calls = {}
            for contestant in report.chosen:
                converted = contestant.convert(functions.add_one)
                calls[contestant.name] = functools.partial(call_each, converted, inputs)
                for _ in range(3):
                    calls[contestant.name]()
            taken = harness.interleave(calls, report.arguments.repeats)
            taken = {name: samples.scaled(1 / count) for name, samples in taken.items()}
            report.add(f"x + 1, {count} shapes in turn", taken)
            reset(report)


def call_each(call, inputs):
    for value in inputs:
        call(value)


PARTS = {
    "add": measure_add,
    "inputs": measure_inputs,
    "models": measure_models,
    "breaks": measure_breaks,
    "entries": measure_entries,
}


def show(rows):
    names = [name for name in dict.fromkeys(row["contestant"] for row in rows) if name != "eager"]
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        by_name = {row["contestant"]: row for row in rows if row["case"] == case}
        line = [case, by_name["eager"]["us"].text() if "eager" in by_name else ""]
        for name in names:
            row = by_name.get(name)
            if row is None:
                line += ["", "", ""]
                continue
            beyond = row.get("beyond_eager_us")
            segments = row.get("segments")
            line.append(row["us"].text())
            line.append(beyond.text() if beyond else "")
            line.append(f"{beyond.median / segments:.2f}" if beyond and segments else "")
        lines.append(line)
    columns = ["case", "eager"]
    for name in names:
        columns += [name, "beyond eager", "a segment"]
    note = "us a call of thread CPU time: median [middle half]"
    harness.show_table("warm calls", columns, lines, note)


def main():
    parser = harness.parser(__doc__, "overhead")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure")
    parser.add_argument("--models", default="mlp,gpt,bert", help="names of the zoo for guards and glue")
    parser.add_argument("--repeats", type=int, default=41)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report = Report(arguments, contestants.choose(arguments.contestants, "eager,framejit,dynamo-eager"))
    for part in arguments.only.split(","):
        PARTS[part](report)
    show(report.rows)


if __name__ == "__main__":
    main()
