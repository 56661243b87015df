"""docs/performance.md with its plots, out of results that the other benchmarks wrote.

    python benchmarks/performance.py --take    # build/benchmarks/*.json become docs/performance/*.json first
    python benchmarks/performance.py

Needs the packages of tools/requirements/plots.txt, and neither torch nor framejit.
"""

import argparse
import json
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "docs", "performance")
RESULTS = os.path.join(ROOT, "build", "benchmarks")
NAMES = (
    "steady",
    "steps",
    "frozen",
    "two_threads",
    "cuda",
    "cuda_models",
    "cuda_training",
    "cold",
    "capture",
    "growth",
    "overhead",
)
# Results of steady.py under other names, each a table of its own: heading and text.
FURTHER = {
    "steps": (
        "Steps of training as one function",
        "Old gradients away, forward, loss and `backward()`, all inside of the compiled function.",
    ),
    "frozen": (
        "Models, inference with frozen parameters",
        "`freeze=True`, and inductor with its switch `freezing`. Eager, framejit and inductor without it ran beside them.",
    ),
    "two_threads": ("Two threads", "The same with two intra-op threads, on a machine with two processors."),
    "cuda": (
        "CUDA: functions that fuse, and small programs",
        "Calls end when the device has done its work. Without CUDA graphs, neither framejit's nor inductor's.",
    ),
    "cuda_models": ("CUDA: models, inference", "Bound by launches at these sizes."),
    "cuda_training": ("CUDA: training", "Forward, loss and backward; a step as one function, or a model alone."),
}
KEPT = ("python", "torch", "cpu", "cpus", "gpu", "load", "arguments")
LABELS = {
    "framejit": "framejit (aten)",
    "framejit-native": "framejit (native)",
    "framejit-frozen": "framejit (frozen)",
    "dynamo-inductor": "inductor",
    "dynamo-inductor-frozen": "inductor (frozen)",
    "dynamo-eager": "torch.compile(eager)",
    "eager": "eager",
}
GROWN = {"depth": "layers of a GPT", "length": "operators in a chain", "breaks": "breaks in a function"}
COLORS = {"framejit": "#8fb8de", "framejit-native": "#1f5fa8", "dynamo-inductor": "#e08a3c"}
GROUPS = [
    ("fused", "Functions that fuse", "Bound by memory: what kernels are for."),
    ("overhead", "Small programs", "Bound by calls, guards and breaks rather than by arithmetic."),
    ("inference", "Models, inference", "Two sentences of 128 tokens, or two images of 224 x 224; bound by products."),
    ("training", "Models, training", "Forward, loss and backward; dropout is on."),
]


def take():
    """Copies what is needed of the results."""
    os.makedirs(FOLDER, exist_ok=True)
    for name in NAMES:
        file = os.path.join(RESULTS, name + ".json")
        if not os.path.exists(file):
            continue
        with open(file) as results:
            found = json.load(results)
        environment = {key: found["environment"][key] for key in KEPT if key in found["environment"]}
        environment["arguments"] = without_json(environment["arguments"])
        with open(os.path.join(FOLDER, name + ".json"), "w") as out:
            json.dump({"environment": environment, "rows": found["rows"]}, out, indent=1)
            out.write("\n")


def read(name):
    """The results of one benchmark, or None."""
    file = os.path.join(FOLDER, name + ".json")
    if not os.path.exists(file):
        return None
    with open(file) as results:
        return json.load(results)


def without_json(arguments):
    """Those that another machine would use."""
    kept = list(arguments)
    if "--json" in kept:
        at = kept.index("--json")
        del kept[at : at + 2]
    return kept


def by_case(rows):
    """{case: {contestant: row}}"""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contestant"]] = row
    return cases


def digits(value):
    """Three significant digits, no exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def compiled_in(cases):
    """Contestants beside eager, in the order of LABELS."""
    return [name for name in LABELS if name != "eager" and name in next(iter(cases.values()))]


def steady_table(heading, text, cases):
    """Warm calls, and how many times faster than eager they are."""
    compiled = compiled_in(cases)
    # Of models: what is left when nothing but products takes time.
    has_products = all(found["eager"]["group"] in ("inference", "training") for found in cases.values())
    has_products = has_products and all("products_ms" in found["eager"] for found in cases.values())
    rows = [
        {
            "name": case,
            "before": [digits(found["eager"]["warm_ms"]["median"])]
            + ([digits(found["eager"]["products_ms"]["median"])] if has_products else []),
            "cells": [
                {"ms": digits(found[c]["warm_ms"]["median"]), "faster": f"{found[c]['faster']['median']:.2f}"}
                for c in compiled
            ],
        }
        for case, found in cases.items()
    ]
    means = [f"{geometric_mean([f[c]['faster']['median'] for f in cases.values()]):.2f}" for c in compiled]
    before = ["eager, ms"] + (["its products alone, ms"] if has_products else [])
    labels = [LABELS[c] for c in compiled]
    return {"heading": heading, "text": text, "before": before, "labels": labels, "rows": rows, "means": means}


def steady_tables(results):
    """What the template shows of the steady state."""
    made, cases = [], by_case(results["steady"]["rows"])
    for name, heading, text in GROUPS:
        of_group = {case: found for case, found in cases.items() if next(iter(found.values()))["group"] == name}
        if of_group:
            made.append(steady_table(heading, text, of_group))
    made += [
        steady_table(heading, text, by_case(results[name]["rows"]))
        for name, (heading, text) in FURTHER.items()
        if results[name]
    ]
    return made


def import_pyplot():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "framejit", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def plot(file, cases, compiled, value, label):
    """Bars for each case and contestant on a logarithmic axis."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 0.34 * len(cases) + 1.2))
    height = 0.8 / len(compiled)
    for index, contestant in enumerate(compiled):
        at = [line + height * (index + 0.5) - 0.4 for line in range(len(cases))]
        widths = [value(found, contestant) for found in cases.values()]
        axes.barh(at, widths, height, label=LABELS[contestant], color=COLORS[contestant])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), list(cases))
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.grid(axis="x", linewidth=0.3)
    axes.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def first_and_peaks(heading, rows):
    """First calls in ms, and peaks of memory in MiB."""
    cases = by_case(rows)
    compiled = compiled_in(cases)
    return {
        "heading": heading,
        "labels": [LABELS[c] for c in compiled],
        "first": [
            {"name": case, "cells": [digits(max(found[c]["first_ms"], 0)) for c in compiled]}
            for case, found in cases.items()
        ],
        "peaks": [
            {"name": case, "cells": [f"{found[c]['peak_bytes'] / 2**20:.2f}" for c in ["eager", *compiled]]}
            for case, found in cases.items()
        ],
    }


def capture_rows(results):
    """Each model and mode beside its peer."""
    made = []
    rows = results["rows"] if results else []
    for ours in (row for row in rows if row["contestant"] == "framejit"):
        key = ours["model"], ours["mode"]
        for peer in rows:
            if (peer["model"], peer["mode"]) == key and peer["contestant"] != "framejit":
                own = max(ours["capture_ms"]["median"], ours["reported_ms"]["median"])
                made.append(
                    {
                        "model": ours["model"],
                        "mode": ours["mode"],
                        "peer": digits(peer["capture_ms"]["median"]),
                        "ours": digits(own),
                        "faster": f"{peer['capture_ms']['median'] / own:.0f} x",
                    }
                )
    return made


def cold_rows(results):
    """Each model with each contestant and state of its cache."""
    states = {"": "", "empty": ", empty cache", "kept": ", cache of a process before"}
    return [
        {
            "model": row["case"],
            "name": LABELS[row["contestant"]] + states[row["cache"]],
            "first": digits(row["first_ms"]["median"]) if row["cache"] else "",
            "result": digits(row["result_s"]["median"]),
        }
        for row in (results["rows"] if results else [])
    ]


def plot_growth(file, rows):
    """A panel for what grows, a line for each contestant, both axes logarithmic."""
    pyplot = import_pyplot()
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure, panels = pyplot.subplots(1, len(kinds), figsize=(4.5 * len(kinds), 3), squeeze=False)
    for kind, axes in zip(kinds, panels[0]):
        for name in dict.fromkeys(row["contestant"] for row in rows):
            points = [(r["size"], r["ms"]["median"]) for r in rows if (r["kind"], r["contestant"]) == (kind, name)]
            axes.plot(*zip(*points), marker="o", label=LABELS[name], color=COLORS.get(name, COLORS["dynamo-inductor"]))
        axes.set_xscale("log")
        axes.set_yscale("log")
        sizes = sorted({row["size"] for row in rows if row["kind"] == kind})
        axes.set_xticks(sizes, sizes)
        axes.minorticks_off()
        axes.set_xlabel(GROWN[kind])
        axes.set_ylabel("capture, ms")
        axes.grid(linewidth=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def growth_tables(results):
    """Of each kind: sizes beside contestants, in ms and in us for one layer or operator."""
    rows = results["rows"] if results else []
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    made = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        by_size = {}
        for row in rows:
            if row["kind"] == kind:
                by_size.setdefault(row["size"], {})[row["contestant"]] = row["ms"]["median"]
        cells = [
            {"size": size, "cells": [c for n in names for c in (digits(ms[n]), digits(ms[n] / size * 1e3))]}
            for size, ms in by_size.items()
        ]
        made.append({"what": GROWN[kind], "labels": [LABELS[name] for name in names], "rows": cells})
    return made


def overhead_table(results):
    """Cases beside contestants, in us."""
    if not results:
        return None
    cases = by_case(results["rows"])
    names = list(dict.fromkeys(row["contestant"] for row in results["rows"]))
    rows = [
        {"name": case, "cells": [digits(found[n]["us"]["median"]) if n in found else "" for n in names]}
        for case, found in cases.items()
    ]
    return {"labels": [LABELS[name] for name in names], "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", action="store_true", help="take the newest results of build/benchmarks")
    arguments = parser.parse_args()
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError as error:
        sys.exit(f"{error}: install tools/requirements/plots.txt into the environment of {sys.executable}")
    if arguments.take:
        take()
    results = {name: read(name) for name in NAMES}
    if not results["steady"]:
        sys.exit("expected docs/performance/steady.json, got none: run benchmarks/steady.py, then this with --take")
    cases = by_case(results["steady"]["rows"])
    compiled = compiled_in(cases)
    plot(
        os.path.join(FOLDER, "steady.svg"),
        cases,
        compiled,
        lambda found, c: found[c]["faster"]["median"],
        "times faster than eager",
    )
    plot(
        os.path.join(FOLDER, "first.svg"),
        cases,
        compiled,
        lambda found, c: max(found[c]["first_ms"], 0.1),
        "first call less an eager call, ms",
    )
    if results["growth"]:
        plot_growth(os.path.join(FOLDER, "growth.svg"), results["growth"]["rows"])
    environments = {}
    for name, found in results.items():
        if found:
            environment = dict(found["environment"])
            environment["arguments"] = " ".join(environment["arguments"])
            environment["load"] = f"{environment['load'][0]:.1f}"
            environment["script"] = "steady" if name in FURTHER else name
            environments[name] = environment
    with open(os.path.join(ROOT, "benchmarks", "performance.md.jinja")) as source:
        template = jinja2.Template(source.read(), trim_blocks=True, undefined=jinja2.StrictUndefined)
    page = template.render(
        environments=environments,
        groups=steady_tables(results),
        devices=[
            first_and_peaks(heading, results[name]["rows"])
            for name, heading in (("steady", "The processor"), ("cuda", "CUDA"), ("cuda_models", "CUDA, models"))
            if results[name]
        ],
        cold=cold_rows(results["cold"]),
        capture=capture_rows(results["capture"]),
        growth=growth_tables(results["growth"]),
        overhead=overhead_table(results["overhead"]),
    )
    with open(os.path.join(ROOT, "docs", "performance.md"), "w") as out:
        out.write("\n".join(line.rstrip() for line in page.splitlines()).rstrip() + "\n")


if __name__ == "__main__":
    main()
