"""Runs the samples of one operator eagerly and compiled, cold and warm, and says where the two differ."""

from __future__ import annotations

import collections
import warnings

import torch

import framejit
from framejit._shadow.account import Account
from framejit._shadow.snapshot import Snapshot
from framejit._shadow.surroundings import seed_all
from support.counts import counting

from .samples import DTYPES, backward, errors_of, samples_of


def measure(op, limit=None, dtypes=DTYPES):
    """At most `limit` samples of each of `dtypes` that the operator takes.

    Returns:
    dict: `samples` that ran eagerly, `refused` that eager raised on, `captured` as one graph without a break,
        `reasons` of the breaks of the others with their counts, `again`: captured ones that the second call captures
        again, `differences` as text.
    """
    found = {"samples": 0, "refused": 0, "captured": 0, "reasons": collections.Counter(), "again": 0, "differences": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in [*samples_of(op, limit, dtypes), *errors_of(op)]:
            run(sample, found)
    found["reasons"] = dict(found["reasons"])
    return found


def run(sample, found):
    framejit.reset()
    compiled = framejit.to_static(sample.function)
    snapshot = Snapshot(*sample.args, *sample.kwargs.values())
    eager = account(sample.function, sample, snapshot)
    found["refused" if eager.raised else "samples"] += 1
    captured = False
    for when in ("cold", "warm"):
        with counting() as counted:
            other = account(compiled, sample, snapshot)
        if not eager.raised:
            if when == "cold":
                captured = count_graphs(counted, found)
            elif captured:
                found["again"] += counted.captures > 0 or counted.hits == 0
        difference = eager.difference(other)
        if difference:
            found["differences"].append(f"{sample.text}, {when}\n{difference}")
            return


def account(function, sample, snapshot):
    """What one run did, from the state that `snapshot` has."""
    seed_all(0)
    try:
        return Account(function, sample.args, sample.kwargs, snapshot, backward if sample.gradients else None)
    finally:
        snapshot.restore()
        if sample.gradients:
            forget_gradients([*sample.args, *sample.kwargs.values()])


def forget_gradients(values):
    """The snapshot does not reach those of sparse tensors."""
    for tensor in torch.utils._pytree.tree_leaves(values):
        if isinstance(tensor, torch.Tensor) and tensor.is_leaf:
            tensor.grad = None


def count_graphs(counted, found):
    """Whether the call was captured whole. It may have no graph: such as `contiguous` of what is contiguous."""
    if counted.captures == 1 and counted.graphs <= 1 and counted.breaks == 0 and counted.fallbacks == 0:
        found["captured"] += 1
        return True
    found["reasons"].update(counted.break_reasons or {"not captured": 1})
    return False
