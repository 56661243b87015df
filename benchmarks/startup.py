"""Processor time from the start of a process to its first compiled `x + 1`, beside eager and torch.compile.

    python benchmarks/startup.py [--inductor]

Each sample is a fresh process; the kinds take turns. The time counts the process and its children (a back end may start
compilers), and ends when the result is there: the shutdown of the interpreter is left out.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

import harness

FUNCTION = """
def f(x):
    return x + 1
x = torch.ones(4)
"""

LEAVE = """
import os, time
print(time.time(), flush=True)
os._exit(0)
"""

PROGRAMS = {
    "python": "",
    "eager": "import torch" + FUNCTION + "f(x)",
    "import framejit": "import torch, framejit",
    "framejit": "import torch, framejit" + FUNCTION + "framejit.to_static(f)(x)",
    "dynamo-eager": "import torch" + FUNCTION + "torch.compile(f, backend='eager')(x)",
    "dynamo-aot_eager": "import torch" + FUNCTION + "torch.compile(f, backend='aot_eager')(x)",
    "inductor, cold cache": "import torch" + FUNCTION + "torch.compile(f)(x)",
}


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(program, cold_cache):
    """(processor seconds, wall seconds) of one process, or None with its error on stderr."""
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as cache:
        if cold_cache:
            environment["TORCHINDUCTOR_CACHE_DIR"] = cache
        cpu, wall = children_cpu(), time.time()
        done = subprocess.run([sys.executable, "-c", program + LEAVE], env=environment, capture_output=True)
        if done.returncode != 0:
            harness.progress(done.stderr.decode()[-1000:])
            return None
        return children_cpu() - cpu, float(done.stdout.split()[-1]) - wall


def main():
    parser = harness.parser(__doc__, "startup")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--inductor", action="store_true", help="also inductor, with an empty cache each time; slow")
    arguments = parser.parse_args()
    kinds = [kind for kind in PROGRAMS if arguments.inductor or not kind.startswith("inductor")]
    if arguments.contestants:
        kinds = [kind for kind in kinds if kind in arguments.contestants.split(",")]
    if any("framejit" in kind for kind in kinds):
        import contestants

        contestants.import_framejit()
    taken = {kind: harness.Samples([], []) for kind in kinds}
    # The first round fills the page cache and is not kept.
    for turn in range(-1, arguments.repeats):
        harness.progress(f"round {turn + 1} of {arguments.repeats}")
        for kind in kinds:
            sample = run(PROGRAMS[kind], kind.startswith("inductor"))
            if sample is not None and turn >= 0:
                taken[kind].cpu.append(sample[0])
                taken[kind].wall.append(sample[1])
    rows = []
    for kind, samples in taken.items():
        if samples.cpu:
            row = {"kind": kind, "cpu_s": harness.summarize(samples.cpu), "wall_s": harness.summarize(samples.wall)}
            if taken.get("eager") and kind != "eager":
                row["beyond_eager_s"] = harness.summarize(harness.difference(samples, taken["eager"]))
            rows.append(row)
    harness.write_json(arguments.json, rows)
    lines = []
    for row in rows:
        beyond = row.get("beyond_eager_s")
        lines.append([row["kind"], row["cpu_s"].text(), beyond.text() if beyond else "", row["wall_s"].text()])
    columns = ["from process start to", "processor s", "beyond eager", "wall s"]
    harness.show_table("start-up to the first x + 1", columns, lines, "median [middle half]")


if __name__ == "__main__":
    main()
