"""The constructs of docs/constructs.md, one file for each group; see registry.py."""

from . import (  # noqa: F401, I001  (the order of the table)
    scopes,
    calls,
    generators,
    comprehensions,
    loops,
    exceptions,
    contexts,
    classes,
    records,
    objects,
    matching,
    tools,
    containers,
    numbers,
    text,
    modules,
    side_effects,
    breaks,
)
from .beside import load_torch_compile, measure_torch_compile
from .registry import ALL, Construct, check, measure

__all__ = ["ALL", "Construct", "check", "load_torch_compile", "measure", "measure_torch_compile"]
