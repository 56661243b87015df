"""Guards: `Guarded(fn)` calls the compiled function beside eager and asserts whether the call had to capture."""

from __future__ import annotations

import framejit
from framejit._shadow.account import Account
from framejit._shadow.snapshot import Snapshot
from framejit._shadow.surroundings import seed_all

from . import counts


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
        seed_all(0)
        eager = Account(self.fn, args, kwargs, snapshot)
        snapshot.restore()
        seed_all(0)
        with counts.counting() as counted:
            compiled = Account(self.compiled, args, kwargs, snapshot)
        snapshot.restore()
        difference = eager.difference(compiled)
        if difference:
            raise AssertionError(f"the compiled run differs from eager\n{difference}") from compiled.raised
        counts.check_counts(counted, when, **expected)
