"""What tests of the back end native ask of its kernels and of memory."""

import pytest
import torch

from framejit import _C

# For `pytestmark`.
needs_kernels = pytest.mark.skipif(_C.why_no_kernels() is not None, reason="no kernels: {}".format(_C.why_no_kernels()))


def kernels_asked_for():
    """How many kernels this process has asked for: compiled, read from disk, or had already."""
    stats = _C.kernel_stats()
    return stats["compiled"] + stats["read"] + stats["shared"]


def memory_events(run):
    """Bytes of each allocation (positive) and release (negative) of a call, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    start = "start_ns" if events and hasattr(events[0], "start_ns") else "start_us"
    return [event.nbytes() for event in sorted(events, key=lambda event: getattr(event, start)())]


def peak_memory(run):
    """The most bytes of tensors that a call holds beyond what was there before."""
    held = most = 0
    for size in memory_events(run):
        held += size
        most = max(most, held)
    return most
