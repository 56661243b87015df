"""What a model of the zoo is: the module, its inputs, and how to read its result."""

import copy
from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

import torch
from torch import nn


@dataclass
class ModelCase:
    """A module with the inputs to call it with.

    name: the name in the registry.
    mode: "infer" (eval mode, called without gradients) or "train" (train mode, dropout on).
    """

    name: str
    mode: str
    model: nn.Module
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any] = field(default_factory=dict)

    @property
    def training(self) -> bool:
        return self.mode == "train"


def clone_case(case: ModelCase) -> ModelCase:
    """A second case with its own bit-equal parameters, buffers and inputs."""
    return copy.deepcopy(case)


def tensors_of(result: Any) -> List[torch.Tensor]:
    """All tensors of a model's result, in a fixed order, whatever holds them."""
    found: List[torch.Tensor] = []
    _collect(result, found, set())
    return found


def loss_of(result: Any) -> torch.Tensor:
    """A scalar loss that every floating output of the model takes part in."""
    floating = [t for t in tensors_of(result) if t.is_floating_point() and t.requires_grad]
    total = floating[0].float().square().mean()
    for tensor in floating[1:]:
        total = total + tensor.float().square().mean()
    return total


def _collect(value: Any, found: List[torch.Tensor], seen: set) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif value is None or isinstance(value, (str, bytes, int, float, bool, torch.dtype, torch.device, type)):
        return
    elif id(value) in seen:
        return
    else:
        seen.add(id(value))
        if isinstance(value, dict):
            children = list(value.values())
        elif isinstance(value, (list, tuple)):
            children = list(value)
        else:
            children = list(getattr(value, "__dict__", {}).values())
        for child in children:
            _collect(child, found, seen)
