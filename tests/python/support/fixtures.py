"""Fixtures and hooks that all suites use; conftest.py names them."""

import gc
import os
import sys

import pytest


def monitoring_tools():
    """The tools of sys.monitoring in use, {number: name}: under one all runs eagerly."""
    monitoring = getattr(sys, "monitoring", None)
    names = {tool: monitoring.get_tool(tool) for tool in range(6)} if monitoring else {}
    return {tool: name for tool, name in names.items() if name is not None}


def free_monitoring_tools(before):
    """Free the tools that were not in use `before`. Hypothesis leaves its own where a test fails in a certain way."""
    for tool in monitoring_tools().keys() - before.keys():
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)


@pytest.fixture(scope="module", autouse=True)
def settled_heap():
    """Take all that lives out of the collector's sight: a heap of ten thousand tests takes it half a second to look through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_framejit():
    """Every test starts without caches and totals, and leaves torch's global switches as they were."""
    framejit = sys.modules.get("framejit")
    if framejit is None:
        yield
        return
    import torch

    framejit.reset()
    grad_enabled, tools = torch.is_grad_enabled(), monitoring_tools()
    yield
    free_monitoring_tools(tools)
    framejit.enable_to_static(True)
    torch.set_grad_enabled(grad_enabled)


def pytest_sessionfinish(session):
    gc.unfreeze()  # so that what looks for leaks when the process ends finds none


def pytest_collection_finish(session):
    """Keep the CUDA text of all kernels that the tests make, in the folder that FRAMEJIT_CUDA_TEXTS names."""
    folder = os.environ.get("FRAMEJIT_CUDA_TEXTS")
    if folder and "framejit" in sys.modules:
        sys.modules["framejit"]._C._testing.collect_cuda(folder)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A test on the list of counts left open whose counts all hold fails: the list only shrinks."""
    report = (yield).get_result()
    counts = sys.modules.get("support.counts")
    if counts and call.when == "call" and report.passed and counts.left_open_without_need(item.nodeid):
        report.outcome = "failed"
        report.longrepr = f"all counts of {item.nodeid} hold: take its line out of counts_left_open*.txt"
