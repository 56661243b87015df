"""Fixtures and hooks that all suites use; conftest.py names them."""

import sys

import pytest


@pytest.fixture(autouse=True)
def fresh_framejit():
    """Every test starts without caches and totals, and leaves torch's global switches as they were."""
    framejit = sys.modules.get("framejit")
    if framejit is None:
        yield
        return
    import torch

    framejit.reset()
    grad_enabled = torch.is_grad_enabled()
    yield
    framejit.enable_to_static(True)
    torch.set_grad_enabled(grad_enabled)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A test on the list of counts left open whose counts all hold fails: the list only shrinks."""
    report = (yield).get_result()
    counts = sys.modules.get("support.counts")
    if counts and call.when == "call" and report.passed and counts.left_open_without_need(item.nodeid):
        report.outcome = "failed"
        report.longrepr = f"all counts of {item.nodeid} hold: take its line out of counts_left_open*.txt"
