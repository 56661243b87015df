"""A plain Python function that makes 3,000 small calls: as fast after `import framejit` and a capture as before.

    python benchmarks/calls.py

Each sample is a fresh process that times the function before the import, after it, after captures with and without graph
breaks, and from inside a captured function that had to run it as plain Python. The same is done for torch.compile.
"""

import json
import os
import subprocess
import sys

import harness

CALLS = 3000
REPEATS_IN_PROCESS = 41

# Runs in the fresh process; argv[1] names the contestant. It prints {phase: samples in us of CPU time} as JSON.
PROGRAM = """
import json, sys, time
import torch

contestant, repeats = sys.argv[1], int(sys.argv[2])

def add(a):
    return a + 1

def scale(a, b):
    return a * b - a

class Holder:
    def __init__(self):
        self.value = 1

    def shift(self, a):
        return self.value + a

holder = Holder()

def plain():
    total = 0
    for i in range(1000):
        total += add(i)
        total += scale(i, 3)
        total += holder.shift(i)
    return total

def whole(x):
    return torch.relu(x) * 2 + 1

def broken(x):
    x = torch.relu(x) + 1
    print("", end="")
    return x * 2

def around(x):
    x = x + 1
    outside()
    return x * 2

def sample(call):
    call(); call()
    taken = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        taken.append((time.thread_time() - start) * 1e6)
    return taken

phases = {"before the import": sample(plain)}
if contestant == "framejit":
    import framejit
    convert, leave_alone = framejit.to_static, framejit.not_to_static
else:
    import torch._dynamo
    convert, leave_alone = (lambda f: torch.compile(f, backend="eager")), torch._dynamo.disable
outside = leave_alone(plain)
phases["after the import"] = sample(plain)
x = torch.ones(4)
one = convert(whole)
one(x); one(x)
phases["after a capture"] = sample(plain)
two = convert(broken)
two(x); two(x)
phases["after a capture with a break"] = sample(plain)
three = convert(around)
three(x)
phases["called from a captured function"] = sample(lambda: three(x))
print(json.dumps(phases))
"""


def run(contestant):
    command = [sys.executable, "-c", PROGRAM, contestant, str(REPEATS_IN_PROCESS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=dict(os.environ), check=True)
    return json.loads(done.stdout)


def main():
    parser = harness.parser(__doc__, "calls")
    parser.add_argument("--repeats", type=int, default=5, help="processes for each contestant")
    arguments = parser.parse_args()
    names = (arguments.contestants or "framejit,dynamo-eager").split(",")
    if "framejit" in names:
        import contestants

        contestants.import_framejit()
    taken = {}
    for turn in range(arguments.repeats):
        for name in names:
            harness.progress(f"{name}, process {turn + 1} of {arguments.repeats}")
            for phase, samples in run(name).items():
                # The fastest half of a process's samples: what disturbs a sample only ever adds time.
                samples = sorted(samples)[: len(samples) // 2]
                taken.setdefault((name, phase), []).append(harness.summarize(samples).median)
    rows = []
    for (name, phase), medians in taken.items():
        before = taken[name, "before the import"]
        ratios = harness.summarize([m / b for m, b in zip(medians, before)])
        rows.append({"contestant": name, "phase": phase, "us": harness.summarize(medians), "ratio": ratios})
    harness.write_json(arguments.json, rows)
    lines = [[row["contestant"], row["phase"], row["us"].text(1), row["ratio"].text(3)] for row in rows]
    columns = ["contestant", "when", "us", "of before the import"]
    note = "thread CPU time: median over processes [middle half]; ratios are within a process"
    harness.show_table(f"{CALLS} small Python calls", columns, lines, note)


if __name__ == "__main__":
    main()
