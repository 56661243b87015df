"""Imports, copies, typing helpers, introspection, time."""

from __future__ import annotations

import copy
import inspect
import sys
import typing

import torch

from .registry import Group

construct = Group("Imports, copies, typing, introspection")


@construct("import inside a function")
def import_inside_a_function(x):
    import math
    from os import path

    return x * math.e, path.basename("a/b")


@construct("import of torch.nn.functional inside")
def import_of_functional_inside(x):
    import torch.nn.functional as F

    return F.softmax(x, dim=0) + F.gelu(x)


@construct("import of a name that is missing, caught")
def import_of_a_name_that_is_missing_caught(x):
    try:
        from math import no_such_name  # noqa: F401
    except ImportError:
        return x.sin()


@construct("importlib.import_module")
def importlib_import_module(x):
    import importlib

    return x * importlib.import_module("math").tau


@construct("copy.copy of a list")
def copy_of_a_list(x):
    values = [x, [x + 1]]
    shallow = copy.copy(values)
    shallow.append(2)
    return shallow[1] is values[1], len(values), shallow[0] * 2


@construct("copy.deepcopy of a dict of tensors")
def deepcopy_of_a_dict_of_tensors(x):
    state = {"weight": x, "step": [1]}
    kept = copy.deepcopy(state)
    state["step"][0] = 2
    return kept["weight"] + 1, kept["step"], kept["weight"] is x


@construct("copy of an instance")
def copy_of_an_instance(x):
    original = Options(2.0)
    other = copy.copy(original)
    other.scale = 5.0
    return x * original.scale + other.scale


class Options:
    def __init__(self, scale):
        self.scale = scale


@construct("typing.cast and TYPE_CHECKING")
def typing_cast_and_type_checking(x):
    if typing.TYPE_CHECKING:
        x = None
    value = typing.cast(torch.Tensor, x)
    return value * 2


@construct("annotations of locals and parameters")
def annotations_of_locals_and_parameters(x):
    def scale(value: torch.Tensor, by: typing.Optional[float] = None) -> torch.Tensor:
        factor: float = 1.0 if by is None else by
        unset: int  # noqa: F842
        return value * factor

    return scale(x) + scale(x, 2.0)


@construct("generic class from typing")
def generic_class_from_typing(x):
    return Box(x.sin()).value, Box[int](3).value


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value


@construct("Protocol and isinstance")
def protocol_and_isinstance(x):
    return x + 1 if isinstance(Options(1.0), Scaled) else x


@typing.runtime_checkable
class Scaled(typing.Protocol):
    scale: float


@construct("TypedDict")
def typed_dict(x):
    batch = BatchDict(inputs=x, size=3)
    return batch["inputs"] * batch["size"]


class BatchDict(typing.TypedDict):
    inputs: torch.Tensor
    size: int


@construct("inspect.signature")
def inspect_signature(x):
    def layer(value, scale=2.0):
        return value * scale

    return layer(x), list(inspect.signature(layer).parameters)


@construct("sys.version_info and flags")
def sys_version_info_and_flags(x):
    if sys.version_info >= (3, 8) and not sys.flags.optimize:
        return x * 2
    return x


@construct("environment variable")
def environment_variable(x):
    import os

    return x * float(os.environ.get("FRAMEJIT_NO_SUCH_VARIABLE", "2"))


@construct("time measured around operators")
def time_measured_around_operators(x):
    import time

    start = time.perf_counter()
    y = x.sin()
    elapsed = time.perf_counter() - start
    return y.cos(), elapsed >= 0


@construct("id, hash and is")
def identity_and_hash(x):
    y = x
    return x + 1, id(x) == id(y), hash(x) == hash(y), x is y, (x + 1) is x


@construct("weakref")
def weak_reference(x):
    import weakref

    options = Options(3.0)
    reference = weakref.ref(options)
    return x * reference().scale


@construct("contextvars")
def context_variable(x):
    token = RATE.set(0.5)
    try:
        return x * RATE.get()
    finally:
        RATE.reset(token)


import contextvars  # noqa: E402

RATE = contextvars.ContextVar("rate", default=1.0)


@construct("threading.Lock")
def threading_lock(x):
    import threading

    with threading.Lock():
        return x + 1


@construct("eval and exec")
def eval_and_exec(x):
    names = {"x": x}
    exec("y = x + 1", names)
    return names["y"] * eval("2 + 1")


@construct("conditional expressions on attributes of tensors")
def conditional_expressions_on_attributes_of_tensors(x):
    y = x.float() if x.dtype == torch.float64 else x * 2
    return y if y.device.type == "cpu" and y.is_contiguous() and not y.requires_grad else x
