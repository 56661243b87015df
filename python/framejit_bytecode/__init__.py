"""The parts of framejit that need no torch: CPython's bytecode and the frame hook."""

from framejit_bytecode._core import capture_everything, capture_stats, decode, listing, liveness, reassemble

__all__ = ["capture_everything", "capture_stats", "decode", "listing", "liveness", "reassemble"]
