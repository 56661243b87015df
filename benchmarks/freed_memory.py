"""Calls of `native` where the process gives freed memory back to the system after each, and where it keeps it.

    python benchmarks/freed_memory.py [--cases resnet50,mobilenet_v3_train] [--repeats 15]

runtime/torch/heap.h says how. A process of its own for each, in turns, so that one does not change the other: medians of
processes are compared. "pages" are those of 4 KiB that the kernel has to make in a call.
"""

import json
import os
import resource
import subprocess
import sys

import contestants
import harness
import torch

CASES = "resnet50,mobilenet_v3_train,resnet50_train,gpt_train,vit_train,bert_train"
VARIABLE = "FRAMEJIT_KEEP_MEMORY"
KINDS = {"given back": "0", "kept": "1"}
PROCESSES = 3


def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def child(case, repeats):
    """The samples of a process: a line of JSON."""
    harness.use_models()
    import steady_cases

    torch.set_num_threads(1)
    (native,) = contestants.choose("framejit-native", "framejit-native")
    call = steady_cases.CASES[case](native.convert)
    for _ in range(4):
        call()
    before = pages()
    samples = [harness.time_once(call) for _ in range(repeats)]
    result = {
        "ms": [s.cpu[0] * 1e3 for s in samples],
        "pages": (pages() - before) / repeats,
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result), flush=True)
    os._exit(0)


def run(case, kind, repeats):
    environment = {**os.environ, VARIABLE: KINDS[kind]}
    command = [sys.executable, __file__, "--child", case, str(repeats)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], int(sys.argv[3]))
    parser = harness.parser(__doc__, "freed_memory")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    rows, lines = [], []
    for case in arguments.cases.split(","):
        taken = {kind: [] for kind in KINDS}
        for _ in range(PROCESSES):
            for kind, samples in taken.items():
                samples.append(run(case, kind, arguments.repeats))
        ms = {kind: harness.summarize([t for s in samples for t in s["ms"]]) for kind, samples in taken.items()}
        last = {kind: samples[-1] for kind, samples in taken.items()}
        rows.append({"case": case, "ms": ms, "last": last})
        lines.append(
            [case, *(ms[kind].text(1) for kind in KINDS), *(f"{last[kind]['pages']:.0f}" for kind in KINDS)]
            + [f"{last[kind]['rss_mib']:.0f}" for kind in KINDS]
        )
    harness.write_json(arguments.json, rows)
    columns = ["case", *(f"{what} {kind}" for what in ("ms,", "pages,", "most MiB,") for kind in KINDS)]
    harness.show_table("memory freed by calls", columns, lines, "median [middle half] of all processes")


if __name__ == "__main__":
    main()
