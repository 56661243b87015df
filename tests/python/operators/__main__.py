"""Runs the comparisons on PyTorch's database, and prints what they found as JSON.

    python -m operators SAMPLES [NAME...]    SAMPLES: of each type, a number or `all`

A process of its own: the database's import switches flags of torch off for good and replaces methods of torch.jit.
"""

import json
import sys

import torch

from .differential import measure
from .inference import compare_inference
from .samples import full_name, operators


def main():
    limit = None if sys.argv[1] == "all" else int(sys.argv[1])
    torch.set_num_threads(1)
    found = {}
    for op in operators():
        name = full_name(op)
        if name in sys.argv[2:] or not sys.argv[2:]:
            found[name] = {"calls": measure(op, limit), "inference": compare_inference(op, limit)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
