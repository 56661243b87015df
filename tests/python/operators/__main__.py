"""Runs the comparisons on PyTorch's database, and prints what they found as JSON.

    python -m operators SAMPLES PARTS PART [NAME...]    SAMPLES: of each type, a number or `all`

Of PARTS equal parts of the operators, the one of that number; 1 0 are all.

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
    parts, part, names = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    found = {}
    for op in operators()[part::parts]:
        name = full_name(op)
        if name in names or not names:
            found[name] = {"calls": measure(op, limit), "inference": compare_inference(op, limit)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
