"""Compares what the recorder says that an operator returns with what it does return, for each operator that samples run.

The operators are those below autograd, of forward and backward.
"""

from __future__ import annotations

import collections
import os
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from framejit import _C
from framejit._shadow.snapshot import Snapshot
from support.skip_list import read

from .samples import DTYPES, LAYOUT_DTYPES, LAYOUTS, backward, errors_of, laid_out, samples_of

LAYOUTS_OF_KERNELS = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layouts_of_kernels.txt"))


def compare_inference(op, limit=None, dtypes=DTYPES):
    """Returns:
    dict: `calls` of operators that differ in their arguments, `inferred` of them, `reasons` of the others with their
        counts, `differences` as text. Of operators with a rule: `meta`, how often the Meta kernel answered too, and
        `wrong_meta`, {operator: a call in which it differs from both the rule and the kernel that ran}. Of calls that the
        operator refused: `errors`, how many the recorder refused with the same error, `stopped` at, or left to the kernel
        when the graph runs (`later`); `left_to_kernel`, {operator: a call}, are the last of operators with a rule.
    """
    mode = Inferring()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_in_layouts(op, limit, dtypes):
            snapshot = Snapshot(*sample.args, *sample.kwargs.values())
            if runs(sample):  # what eager refuses is a matter of the other comparison
                snapshot.restore()
                torch.manual_seed(0)
                with mode:
                    call(sample)
            snapshot.restore()
        for sample in errors_of(op):
            with mode:
                runs(sample)
    return {
        "calls": len(mode.seen), "inferred": mode.inferred, "reasons": dict(mode.reasons), "differences": mode.differences,
        "meta": mode.meta, "wrong_meta": mode.wrong_meta, "errors": dict(mode.errors), "left_to_kernel": mode.left_to_kernel,
    }  # fmt: skip


def samples_in_layouts(op, limit, dtypes):
    yield from samples_of(op, limit, dtypes)
    for layout in LAYOUTS:
        for sample in samples_of(op, limit, [dtype for dtype in LAYOUT_DTYPES if dtype in dtypes]):
            yield laid_out(sample, layout)


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
        self.seen, self.inferred, self.meta = set(), 0, 0
        self.reasons, self.errors, self.differences, self.wrong_meta = collections.Counter(), collections.Counter(), [], {}
        self.left_to_kernel = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        call = f"{func}({describe((args, kwargs))})"
        if call in self.seen:
            return func(*args, **kwargs)
        self.seen.add(call)
        expected = outcome(func, args, kwargs)
        # Asked before the operator runs, which may write its arguments.
        by_meta = outcome(func, args, kwargs, meta_only=True) if _C._testing.has_rule(name_of(func)) else None
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.compare_error(func, call, expected, error)
            raise
        self.compare(func, args, call, expected, by_meta, describe(result))
        return result

    def compare(self, func, args, call, expected, by_meta, found):
        if expected.stop:
            self.reasons[expected.stop] += 1
        elif expected.error:
            self.differences.append(f"{call}\n- {found}\n+ {expected.error}")
        else:
            self.inferred += 1
            if found != expected.facts and not is_left_to_first_run(func, args):
                self.differences.append(f"{call}\n- {found}\n+ {expected.facts}")
        if by_meta is None or expected.facts is None or by_meta.stop:
            return
        self.meta += 1
        answer = by_meta.facts or by_meta.error
        if answer != expected.facts and found == expected.facts:
            self.wrong_meta.setdefault(name_of(func), f"{call}\n- {found}\n+ {answer}")

    def compare_error(self, func, call, expected, error):
        if expected.stop:
            self.errors["stopped"] += 1
        elif expected.facts is not None:
            self.errors["later"] += 1
            if _C._testing.has_rule(name_of(func)):
                self.left_to_kernel.setdefault(name_of(func), f"{call}\n- {text_of(error)}\n+ {expected.facts}")
        elif expected.error == text_of(error):
            self.errors["same"] += 1
        else:
            self.differences.append(f"{call}\n- {text_of(error)}\n+ {expected.error}")


def is_left_to_first_run(func, args):
    """Convolutions in three dimensions of f32: no rule answers, and the first run is held against what the Meta kernel said."""
    return name_of(func) in LAYOUTS_OF_KERNELS and args[0].dim() == 5 and args[0].dtype == torch.float32


Outcome = collections.namedtuple("Outcome", "facts stop error", defaults=(None, None, None))


def outcome(func, args, kwargs, meta_only=False):
    """What the recorder makes of the call: facts of its results, why it stops, or the error that it raises."""
    before = _C._testing.set_meta_only(meta_only)
    try:
        return Outcome(facts=describe(infer(func, args, kwargs)))
    except ValueError as why:  # no tensor of a capture
        return Outcome(stop=str(why))
    except Exception as error:
        if str(error).partition(":")[0] in _C.stop_reasons():
            return Outcome(stop=str(error))
        return Outcome(error=text_of(error))
    finally:
        _C._testing.set_meta_only(before)


def text_of(error):
    """Type and message, without the lines of C++ that some builds of torch add."""
    return f"{type(error).__name__}: {str(error).partition('Exception raised from')[0].strip()}"


def name_of(func):
    return func.name()


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
        try:
            _C._testing.record(run, tensors)
        except AssertionError:  # the graph does not verify: what the Meta kernel said is not what the rule says
            if not results:
                raise
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
