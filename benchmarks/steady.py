"""Steady state and compile time: eager, framejit with its back ends, and torch.compile with inductor, in one process.

    python benchmarks/steady.py [--only chain,chain_small,rms_norm,layer_norm,softmax,gelu_mlp] [--threads 1]

"first call" is the first call's wall clock less an eager call: capture and compilation. Kernels of framejit come from an
empty folder of its own for each run, inductor's from an empty one as well. "warm" is wall clock per call, the contestants
in turns.
"""

import os
import tempfile

SCRATCH = tempfile.TemporaryDirectory(prefix="framejit-steady-")
os.environ["FRAMEJIT_CACHE_DIR"] = os.path.join(SCRATCH.name, "kernels")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(SCRATCH.name, "inductor")

import functools  # noqa: E402

import contestants  # noqa: E402
import harness  # noqa: E402
import torch  # noqa: E402


def chain(x, y):
    for _ in range(3):
        x = torch.relu(x * y + 1) - torch.sigmoid(x) * 0.5
        x = torch.where(x > 1, x * 0.5, torch.tanh(x))
    return x


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def layer_norm(x, weight):
    return torch.nn.functional.layer_norm(x + 1, weight.shape, weight, weight)


def softmax(x, weight):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) * weight


def gelu_mlp(x, weight):
    return torch.nn.functional.gelu(x @ weight + 1) * torch.sigmoid(x @ weight)


def cases():
    """name -> (function, arguments)"""
    torch.manual_seed(0)
    rows, line = torch.randn(512, 768), torch.randn(768)
    return {
        "chain": (chain, (torch.randn(1000, 1000), torch.randn(1000))),
        "chain_small": (chain, (torch.randn(8), torch.randn(8))),
        "rms_norm": (rms_norm, (rows, line)),
        "layer_norm": (layer_norm, (rows, line)),
        "softmax": (softmax, (rows, line)),
        "gelu_mlp": (gelu_mlp, (torch.randn(64, 256), torch.randn(256, 256))),
    }


def measure(name, function, arguments, chosen):
    """A row for each contestant: first call and warm call in ms."""
    eager = functools.partial(function, *arguments)
    eager()
    base = min(harness.time_once(eager).wall[0] for _ in range(5))
    calls, first = {}, {}
    for contestant in chosen:
        contestant.reset()
        calls[contestant.name] = functools.partial(contestant.convert(function), *arguments)
        first[contestant.name] = (harness.time_once(calls[contestant.name]).wall[0] - base) * 1e3
    taken = harness.interleave(calls)
    return [
        {
            "case": name,
            "contestant": contestant.name,
            "first_ms": 0.0 if contestant.name == "eager" else first[contestant.name],
            "warm_ms": harness.summarize([t * 1e3 for t in taken[contestant.name].wall]),
        }
        for contestant in chosen
    ]


def show(rows, chosen):
    lines = []
    for name in dict.fromkeys(row["case"] for row in rows):
        of_case = {row["contestant"]: row for row in rows if row["case"] == name}
        line = [name] + [of_case[c.name]["warm_ms"].text(4) for c in chosen]
        line += [f"{of_case[c.name]['first_ms']:.0f}" for c in chosen if c.name != "eager"]
        lines.append(line)
    columns = (
        ["case"] + [f"{c.label}, warm" for c in chosen] + [f"{c.label}, first" for c in chosen if c.name != "eager"]
    )
    harness.show_table("steady state and first call, ms", columns, lines, "median [middle half] of wall clock")


def main():
    parser = harness.parser(__doc__, "steady")
    parser.add_argument("--only", default=",".join(cases()), help="names of cases")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    chosen = contestants.choose(arguments.contestants, "eager,framejit,framejit-native,dynamo-inductor")
    for contestant in chosen:  # imports and first uses are no part of it
        contestant.convert(lambda x: torch.relu(x) * 2 + 1)(torch.ones(3))
    rows = []
    for name, (function, args) in cases().items():
        if name in arguments.only.split(","):
            harness.progress(name)
            rows += measure(name, function, args, chosen)
            harness.write_json(arguments.json, rows)
    show(rows, chosen)


if __name__ == "__main__":
    main()
