"""What tests leave behind does not reach the next ones."""

import sys

import pytest
import torch

import framejit
from support.fixtures import free_monitoring_tools, monitoring_tools


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is new in 3.12")
def test_a_tool_of_monitoring_that_a_test_left_is_freed():
    monitoring, before, x = sys.monitoring, monitoring_tools(), torch.ones(2)
    compiled = framejit.to_static(lambda x: x + 1)
    monitoring.use_tool_id(4, "left behind")
    try:
        monitoring.set_events(4, monitoring.events.LINE)
        assert monitoring_tools() == {**before, 4: "left behind"}
        assert torch.equal(compiled(x), x + 1) and not compiled.graphs  # under a tool all runs eagerly
    finally:
        free_monitoring_tools(before)
    assert monitoring_tools() == before
    assert torch.equal(compiled(x), x + 1) and len(compiled.graphs) == 1
