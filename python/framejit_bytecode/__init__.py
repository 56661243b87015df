"""The parts of framejit that need no torch: CPython's bytecode and the frame hook."""

from framejit_bytecode._core import decode, listing, liveness, reassemble

__all__ = ["decode", "listing", "liveness", "reassemble"]
