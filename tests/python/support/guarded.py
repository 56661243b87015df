"""Guards: `Guarded(fn)` calls the compiled function beside eager and asserts whether the call had to capture."""

from __future__ import annotations

import framejit

from . import counts
from .same_as_eager import account
from .snapshot import Snapshot


class Guarded:
    """`captures(...)` and `hits(...)` run `fn` eagerly and compiled on the same arguments and compare the two."""

    def __init__(self, fn):
        framejit.reset()
        self.fn = fn
        self.compiled = framejit.to_static(fn)

    def captures(self, *args, **kwargs):
        """The call must miss, capture, and be right."""
        return self._call(args, kwargs, "expected a capture", captures=counts.at_least(1), misses=counts.at_least(1), fallbacks=0)

    def hits(self, *args, **kwargs):
        """The call must be served by an entry made before, and be right."""
        return self._call(args, kwargs, "expected a hit", captures=0, misses=0, hits=counts.at_least(1), fallbacks=0)

    def agrees(self, *args, **kwargs):
        """The call must be right, whatever it took."""
        return self._call(args, kwargs, "", fallbacks=0)

    def _call(self, args, kwargs, when, **expected):
        snapshot = Snapshot(self.fn, *args, *kwargs.values())
        eager, _ = account(self.fn, args, kwargs, snapshot)
        snapshot.restore()
        with counts.counting() as counted:
            compiled, raised = account(self.compiled, args, kwargs, snapshot)
        snapshot.restore()
        if eager != compiled:
            raise AssertionError("\n".join(["differs from eager:", *eager, "compiled:", *compiled])) from raised
        counts.check_counts(counted, when, **expected)
