"""Compares what the recorder says that an operator returns with what it does return, for each operator that samples run.

The operators are those below autograd, of forward and backward.
"""

from __future__ import annotations

import collections
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from framejit import _C
from framejit._shadow.snapshot import Snapshot

from .samples import DTYPES, backward, samples_of


def compare_inference(op, limit=None, dtypes=DTYPES):
    """Returns:
    dict: `calls` of operators that differ in their arguments, `inferred` of them, `reasons` of the others with their
        counts, `differences` as text.
    """
    mode = Inferring()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_of(op, limit, dtypes):
            snapshot = Snapshot(*sample.args, *sample.kwargs.values())
            if runs(sample):  # what eager refuses is a matter of the other comparison
                snapshot.restore()
                torch.manual_seed(0)
                with mode:
                    call(sample)
            snapshot.restore()
    return {
        "calls": len(mode.seen), "inferred": mode.inferred, "reasons": dict(mode.reasons), "differences": mode.differences,
    }  # fmt: skip


def runs(sample):
    torch.manual_seed(0)
    try:
        call(sample)
    except Exception:
        return False
    return True


def call(sample):
    result = sample.function(*sample.args, **sample.kwargs)
    if sample.gradients:
        backward(result)


class Inferring(TorchDispatchMode):
    """Asks the recorder before each operator runs."""

    def __init__(self):
        super().__init__()
        self.seen, self.inferred = set(), 0
        self.reasons, self.differences = collections.Counter(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        call = f"{func}({describe((args, kwargs))})"
        if call in self.seen:
            return func(*args, **kwargs)
        self.seen.add(call)
        try:
            expected = describe(infer(func, args, kwargs))
        except (RuntimeError, ValueError) as stopped:
            expected = None
            self.reasons[str(stopped)] += 1
        result = func(*args, **kwargs)
        if expected is not None:
            self.inferred += 1
            found = describe(result)
            if found != expected:
                self.differences.append(f"{call}\n- {found}\n+ {expected}")
        return result


def infer(func, args, kwargs):
    """What the recorder makes of the call: the same structure with fakes."""
    leaves, spec = torch.utils._pytree.tree_flatten((args, kwargs))
    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    results = []

    def run(*fakes):
        rest = iter(fakes)
        values = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        fake_args, fake_kwargs = torch.utils._pytree.tree_unflatten(values, spec)
        results.append(facts(func(*fake_args, **fake_kwargs)))
        return ()

    # torch 2.4 runs the handler with all keys excluded that come before it: that of the recorder too.
    excluded = torch._C._dispatch_tls_local_exclude_set().remove(torch._C._dispatch_key_parse("Fake"))
    with torch.no_grad(), torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        _C._testing.record(run, tensors)
    return results[0]


Facts = collections.namedtuple("Facts", "shape strides offset dtype device flags")


def facts(value):
    """With the facts of each tensor in its place: a fake ends with its recording."""
    return torch.utils._pytree.tree_map(lambda leaf: facts_of(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def facts_of(tensor):
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    strides = tensor.stride() if tensor.numel() else "any"  # nobody can tell them apart
    flags = [name for name in ("is_conj", "is_neg", "is_complex") if getattr(tensor, name)()]
    return Facts(tuple(tensor.shape), strides, tensor.storage_offset(), tensor.dtype, tensor.device, flags)


def describe(value):
    return repr(facts(value))
