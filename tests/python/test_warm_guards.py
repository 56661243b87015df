"""Fields of tensors that change between warm calls, while the tensor stays the same object."""

import pytest
import torch

from support.guarded import Guarded


class Held(torch.nn.Module):
    """A parameter whose fields change while it stays the same object."""

    def __init__(self, rank=2):
        super().__init__()
        self.p = torch.nn.Parameter(torch.arange(64.0).reshape(4, 16) if rank == 2 else torch.ones([2] * rank))

    def forward(self, x):
        return x + self.p.sum(), self.p.stride(), self.p.dtype, self.p.storage_offset(), self.p.requires_grad, self.p * 2


def _set_data(data):
    return lambda held: setattr(held.p, "data", data())


FIELDS = {
    "sizes": _set_data(lambda: torch.ones(4, 8)),
    "rank": _set_data(lambda: torch.ones(4, 16, 1)),
    "strides": _set_data(lambda: torch.arange(64.0).reshape(16, 4).t()),
    "offset": _set_data(lambda: torch.arange(80.0)[7:71].reshape(4, 16)),
    "dtype": _set_data(lambda: torch.ones(4, 16, dtype=torch.float64)),
    "half": _set_data(lambda: torch.ones(4, 16, dtype=torch.bfloat16)),
    "more dimensions": _set_data(lambda: torch.ones(2, 1, 2, 1, 4, 1, 4)),
    "requires_grad": lambda held: held.p.requires_grad_(False),
    "class": lambda held: setattr(held.p, "__class__", type("Mine", (torch.nn.Parameter,), {})),
}


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_a_parameter_are_seen_by_warm_calls(field):
    held, x = Held(), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    FIELDS[field](held)
    if field == "class":
        guarded.agrees(x)  # which is not captured
    else:
        guarded.captures(x)
    for _ in range(5):
        guarded.agrees(x)


@pytest.mark.parametrize("rank", [5, 6])
def test_dimensions_that_lie_elsewhere_are_seen_by_warm_calls(rank):
    """LibTorch keeps five dimensions in the tensor."""
    held, x = Held(rank), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for _ in range(5):
        guarded.hits(x)
    held.p.data = torch.ones([2] * (rank - 1) + [3])
    guarded.captures(x)
    held.p.data = torch.ones([2] * rank)
    for _ in range(3):
        guarded.hits(x)


def test_other_data_of_the_same_kind_is_a_hit():
    held, x = Held(), torch.ones(3)
    guarded = Guarded(lambda x: held(x))
    guarded.captures(x)
    for i in range(6):
        held.p.data = torch.full((4, 16), float(i))
        guarded.hits(x)


def test_history_of_a_buffer_is_seen_by_warm_calls():
    """In place, the tensor stays the same object."""
    weight = torch.nn.Parameter(torch.ones(3))
    held = torch.nn.Module()
    held.register_buffer("total", torch.zeros(3))
    guarded = Guarded(lambda x: (x + held.total, held.total.requires_grad, held.total.is_leaf))
    guarded.captures(torch.ones(3))
    for _ in range(5):
        guarded.hits(torch.ones(3))
    held.total.add_(weight)
    guarded.captures(torch.ones(3))
    guarded.hits(torch.ones(3))
