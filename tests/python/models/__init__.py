"""The model zoo shared by the tests, the demo and the benchmarks.

``build(name, mode)`` makes one model with its inputs from a fixed seed, so that two calls give
bit-equal weights and inputs. ``MODELS`` are the models that must capture as one graph without a
break; ``EXTRA`` are further ways to call them (key-value cache, attention mask).
"""

from .case import ModelCase, clone_case, loss_of, tensors_of
from .registry import EXTRA, MODELS, available, build, missing_package

__all__ = [
    "EXTRA",
    "MODELS",
    "ModelCase",
    "available",
    "build",
    "clone_case",
    "loss_of",
    "missing_package",
    "tensors_of",
]
