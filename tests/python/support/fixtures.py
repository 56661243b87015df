"""Fixtures that all suites use; conftest.py names them."""

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
