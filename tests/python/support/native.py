"""What tests of the back end native ask of its kernels and of memory."""

import itertools

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
    """Bytes of each allocation (positive) and release (negative) of a call, in order.

    It is called twice: the profiler knows the size of what is freed only if it has seen it made.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
        with torch.profiler.record_function("measured"):
            run()
    events = profile.profiler.kineto_results.events()
    start = "start_ns" if hasattr(events[0], "start_ns") else "start_us"
    events = sorted(events, key=lambda event: getattr(event, start)())
    begin = next(index for index, event in enumerate(events) if event.name() == "measured")
    return [event.nbytes() for event in events[begin:] if event.name() == "[memory]"]


def peak_memory(run):
    """The most bytes of tensors that a call holds beyond the least: what a step frees first, old gradients, is not."""
    held = list(itertools.accumulate(memory_events(run), initial=0))
    return max(held) - min(held)
