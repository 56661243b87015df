"""`assert_same_as_eager(fn, *args)`: the compiled function does exactly what the plain one does.

Compared, on every run: the result (tensors bit for bit), identity and aliasing among results, arguments and other
reachable objects, mutations of arguments, globals, cells and attributes, an exception's type, message, chain and line
numbers, printed output, the state of the random generators, and the global switches of torch. Runs: cold, warm with
the same objects, warm with fresh tensors, after a guard miss, and back again. The counts of `framejit.stats()` prove
each time that the compiled path ran.
"""

from __future__ import annotations

import os

import torch

import framejit
from framejit._shadow import scope
from framejit._shadow.account import Account
from framejit._shadow.snapshot import Snapshot
from framejit._shadow.surroundings import Switches, seed_all

from . import counts

at_least = counts.at_least
scope.exclude(os.path.dirname(__file__))


def assert_same_as_eager(
    fn,
    *args,
    kwargs=None,
    graphs=1,
    breaks=0,
    fallbacks=0,
    ops=None,
    raises=None,
    make=None,
    miss="grad_mode",
    after=None,
    warm=True,
    cold_runs=1,
    seed=0,
    options=None,
):
    """Run `fn` eagerly and under `to_static`, and assert that nothing tells them apart.

    args, kwargs  given to every run; what a run mutates is put back before the next
    graphs, breaks, ops   expected counts of the cold run: an int, `at_least(n)`, or None
    fallbacks     expected count of every run; None where a stretch of the function can only run eagerly
    raises        the exception type that eager raises; a program that raises must say so
    make          instead of args: called before each run, returns (args, kwargs) made anew (for arguments that cannot
                  be put back, such as iterators, and for tensors with history)
    miss          how to provoke a guard miss: "grad_mode", "dtype", a function from args to args, or None
    after         called on each run's result (in eager and compiled alike); its own result is compared too
    cold_runs     how many calls it takes until all stretches are captured
    warm          False where a second call is a miss by nature
    options       keyword arguments of `to_static`

    Returns the compiled function.
    """
    framejit.reset()
    case = Case(fn, framejit.to_static(fn, **(options or {})), args, kwargs or {}, make, raises, after, seed)
    captures = at_least(1) if fallbacks == 0 else None
    case.run("cold", captures=captures, graphs=graphs, breaks=breaks, ops=ops, fallbacks=fallbacks)
    for _ in range(1, cold_runs):
        case.run("settling", fallbacks=fallbacks)
    if not warm:
        return case.compiled
    served = dict(captures=0, misses=0, hits=at_least(1) if fallbacks == 0 else None, fallbacks=fallbacks)
    case.run("warm", **served)
    if make is None and not shares_storage(args, kwargs):
        case.run("warm with fresh tensors", change=fresh_copies, **served)
    if miss is not None:
        missed = dict(misses=at_least(1) if graphs != 0 else None, fallbacks=fallbacks)
        with torch.set_grad_enabled(torch.is_grad_enabled() ^ (miss == "grad_mode")):
            change = double_copies if miss == "dtype" else miss if callable(miss) else None
            case.run("after a guard miss", change=change, check_raises=False, **missed)
        case.run("back to the first entry", **served)
    return case.compiled


class Case:
    """A function, its compiled form, and how to run either from one starting state."""

    def __init__(self, fn, compiled, args, kwargs, make, raises, after, seed):
        self.fn, self.compiled = fn, compiled
        self.args, self.kwargs, self.make = args, kwargs, make
        self.raises, self.after, self.seed = raises, after, seed

    def run(self, when, change=None, check_raises=True, **expected):
        """One eager run and one compiled run, compared; `expected` are the counts of the compiled one."""
        eager = self._eager_account(change)
        if check_raises:
            check_expected_exception(eager.raised, self.raises)
        with counts.counting() as counted:
            compiled = self._account(self.compiled, change)
        difference = self._difference(eager, compiled, change)
        if difference:
            raise AssertionError(f"{when}: the compiled run differs from eager\n{difference}") from compiled.raised
        counts.check_counts(counted, when, **expected)

    def _difference(self, eager, compiled, change):
        return eager.difference(compiled)

    def _eager_account(self, change):
        return self._account(self.fn, change)

    def _account(self, run, change):
        args, kwargs = self.make() if self.make else (self.args, self.kwargs)
        if change is not None:
            args, kwargs = change(args, kwargs) if change in (fresh_copies, double_copies) else (change(*args), kwargs)
        snapshot = self._snapshot(args, kwargs)
        switches = Switches()
        seed_all(self.seed)
        try:
            return Account(run, args, kwargs, snapshot, self.after)
        finally:
            switches.restore()
            snapshot.restore()

    def _snapshot(self, args, kwargs):
        return Snapshot(self.fn, self.after, *args, *kwargs.values())


def check_expected_exception(raised, expected):
    if raised is None and expected is not None:
        raise AssertionError(f"eager does not raise {expected.__name__}")
    if raised is not None and (expected is None or not isinstance(raised, expected)):
        raise raised


def map_tensors(value, change, memo):
    """`value` with each plain tensor in its tuples, lists and dicts replaced by `change(tensor)`."""
    if id(value) in memo:
        return memo[id(value)]
    if type(value) is torch.Tensor and value.is_leaf:
        result = change(value)
    elif type(value) in (list, tuple):
        result = type(value)(map_tensors(item, change, memo) for item in value)
    elif type(value) is dict:
        result = {key: map_tensors(item, change, memo) for key, item in value.items()}
    else:
        return value
    memo[id(value)] = result
    return result


def copy_like(tensor, dtype=None):
    """A new tensor with the same values, strides and requires_grad."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype or tensor.dtype, device=tensor.device)
    with torch.no_grad():
        copy.copy_(tensor)
    return copy.requires_grad_(tensor.requires_grad)


def fresh_copies(args, kwargs):
    memo = {}
    return map_tensors(tuple(args), copy_like, memo), map_tensors(dict(kwargs), copy_like, memo)


def double_copies(args, kwargs):
    def change(tensor):
        return copy_like(tensor, torch.float64 if tensor.dtype == torch.float32 else None)

    memo = {}
    return map_tensors(tuple(args), change, memo), map_tensors(dict(kwargs), change, memo)


def shares_storage(args, kwargs):
    """True if two different tensors among the arguments are views of one storage, which a copy would not keep."""
    tensors = {}

    def collect(tensor):
        tensors[id(tensor)] = tensor
        return tensor

    map_tensors((tuple(args), dict(kwargs or {})), collect, {})
    plain = [tensor for tensor in tensors.values() if tensor.layout == torch.strided]
    expanded = any(0 in tensor.stride() for tensor in plain if tensor.numel() > 1)
    return expanded or len({tensor.untyped_storage()._cdata for tensor in plain}) < len(tensors)
