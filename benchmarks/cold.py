"""The first call of a model in a fresh process, with an empty cache on disk and with the one that a process before filled.

    python benchmarks/cold.py [--models gpt] [--repeats 5]

Contestants: eager, framejit's `native` and inductor. Each sample is a process of its own, the kinds take turns. "first call"
is wall clock of the first compiled call less an eager one: capture and compilation. "process start to result" counts the
imports and the making of the model as well.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import contestants
import harness
import torch

CACHES = ("FRAMEJIT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
COMPILED = ("framejit-native", "dynamo-inductor")
KEPT, EMPTY = "kept", "empty"
KINDS = (("eager", ""), *((name, cache) for name in COMPILED for cache in (EMPTY, KEPT)))


def child(model, contestant, started):
    """One sample, in a process of its own: a line of JSON."""
    harness.use_models()
    import models

    torch.set_num_threads(1)
    (chosen,) = contestants.choose(contestant, contestant)
    case = models.build(model, "infer")
    converted = chosen.convert(models.build(model, "infer").model)
    with torch.no_grad():
        eager_s = []
        for _ in range(3):
            begin = time.perf_counter()
            case.model(*case.args, **case.kwargs)
            eager_s.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        converted(*case.args, **case.kwargs)
        first_s = time.perf_counter() - begin
    now = time.time()
    if contestant == "framejit-native":
        kernels = contestants.import_framejit()._C.kernel_stats()
        assert kernels["failed"] == 0 and kernels["compiled"] + kernels["read"] > 0, kernels
    sample = {"first_s": first_s - min(eager_s), "result_s": now - started - sum(eager_s)}
    print(json.dumps(sample), flush=True)
    os._exit(0)  # the shutdown of compilers' processes is no part of it


def run(model, contestant, folder):
    environment = dict(os.environ)
    for index, name in enumerate(CACHES):
        environment[name] = os.path.join(folder, str(index))
    command = [sys.executable, __file__, "--child", model, contestant, str(time.time())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{contestant} on {model} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(model, kinds, repeats):
    """A row for each contestant and state of its cache."""
    taken = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="framejit-cold-") as scratch:
        for contestant, cache in kinds:
            if cache != EMPTY:  # fills its cache, and the system's of files
                run(model, contestant, os.path.join(scratch, contestant))
        for turn in range(repeats):
            harness.progress(f"{model}, round {turn + 1} of {repeats}")
            for contestant, cache in kinds:
                folder = f"{contestant}-{turn}" if cache == EMPTY else contestant
                taken[contestant, cache].append(run(model, contestant, os.path.join(scratch, folder)))
    return [
        {
            "case": model,
            "contestant": contestant,
            "cache": cache,
            "first_ms": harness.summarize([sample["first_s"] * 1e3 for sample in samples]),
            "result_s": harness.summarize([sample["result_s"] for sample in samples]),
        }
        for (contestant, cache), samples in taken.items()
    ]


def show(rows):
    lines = []
    for row in rows:
        name = row["contestant"] + (f", {row['cache']} cache" if row["cache"] else "")
        first = row["first_ms"].text(1) if row["cache"] else ""
        lines.append([row["case"], name, first, row["result_s"].text()])
    columns = ["model", "contestant", "first call, ms", "process start to result, s"]
    harness.show_table("first calls in fresh processes", columns, lines, "median [middle half]")


def main():
    parser = harness.parser(__doc__, "cold")
    parser.add_argument("--models", default="gpt")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    chosen = arguments.contestants.split(",") if arguments.contestants else ["eager", *COMPILED]
    kinds = [kind for kind in KINDS if kind[0] in chosen]
    rows = [row for model in arguments.models.split(",") for row in measure(model, kinds, arguments.repeats)]
    harness.write_json(arguments.json, rows)
    show(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        main()
