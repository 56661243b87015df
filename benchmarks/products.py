"""The products of a call alone: what no compiler of the rest can gain on."""

from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {
    "addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "convolution_backward", "mm", "mv",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward",
}  # fmt: skip


class _Products(TorchDispatchMode):
    """Keeps the calls of matrix products, convolutions and attention with their arguments."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.split("::")[1] in PRODUCTS:
            self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def products_of(call: Callable[[], Any]) -> Callable[[], None]:
    """A call of the same products on the same tensors, one after the other, and nothing else."""
    with _Products() as found:
        call()

    def run():
        with torch.no_grad():
            for func, args, kwargs in found.calls:
                func(*args, **kwargs)

    return run
