"""Who is measured: eager PyTorch, framejit with both back ends, torch.compile with those that only capture and with inductor."""

import sys
from typing import Any, Callable, List, Optional

import torch


class Contestant:
    """One way to run a function or a module.

    name: what --contestants and the JSON results call it.
    label: what tables call it.
    """

    name = "eager"
    label = "eager"

    def convert(self, target: Any, backend: Optional[Callable] = None) -> Any:
        """What to call instead of `target`. backend: a callable (fx.GraphModule, inputs) -> callable."""
        return target

    def reset(self) -> None:
        """Drop every cache, so that the next call captures again."""

    def own_clock(self) -> float:
        """Seconds of capture since the last reset by its own account; 0 if it keeps none."""
        return 0.0


class Framejit(Contestant):
    name = "framejit"
    label = "framejit"

    def __init__(self):
        self.package = import_framejit()

    def convert(self, target, backend=None):
        options = {} if backend is None else {"backend": backend}
        return self.package.to_static(target, **options)

    def reset(self):
        self.package.reset()

    def own_clock(self):
        return self.package.stats()["capture_s"]


class FramejitNative(Framejit):
    name = "framejit-native"
    label = "framejit (native)"

    def convert(self, target, backend=None):
        return self.package.to_static(target, backend=backend or "native")


class FramejitFrozen(Framejit):
    name = "framejit-frozen"
    label = "framejit (native, frozen)"

    def convert(self, target, backend=None):
        return self.package.to_static(target, backend="native", freeze=True)


class Dynamo(Contestant):
    def __init__(self, backend: str):
        self.backend = backend
        self.name = f"dynamo-{backend}"
        self.label = f"torch.compile({backend})"

    def convert(self, target, backend=None):
        return torch.compile(target, backend=backend or self.backend)

    def reset(self):
        torch._dynamo.reset()


class FrozenInductor(Dynamo):
    """Inductor with its own switch for frozen parameters."""

    def __init__(self):
        super().__init__("inductor")
        self.name = "dynamo-inductor-frozen"
        self.label = "torch.compile(inductor, freezing)"

    def convert(self, target, backend=None):
        return torch.compile(target, backend="inductor", options={"freezing": True})


def import_framejit():
    """The package, or an end with one clear sentence."""
    try:
        import framejit
    except ImportError as error:
        sys.exit(f"framejit cannot be imported in {sys.executable}: {error}; build it with ./dev build")
    return framejit


def choose(text: str, default: str) -> List[Contestant]:
    """Contestants by name, in order; `default` if text is empty."""
    makers = {
        "eager": Contestant,
        "framejit": Framejit,
        "framejit-native": FramejitNative,
        "framejit-frozen": FramejitFrozen,
        "dynamo-eager": lambda: Dynamo("eager"),
        "dynamo-aot_eager": lambda: Dynamo("aot_eager"),
        "dynamo-inductor": lambda: Dynamo("inductor"),
        "dynamo-inductor-frozen": FrozenInductor,
    }
    names = (text or default).split(",")
    for name in names:
        if name not in makers:
            sys.exit(f"no contestant {name!r}; there are {', '.join(makers)}")
    return [makers[name]() for name in names]


def constant_backend(graph_module, example_inputs):
    """A back end that computes a graph once and then gives the same result again.

    What is left of a call is its guards and glue: the cost of being compiled, without the kernels.
    """
    cell: List[Any] = []

    def run(*inputs):
        if not cell:
            cell.append(graph_module(*inputs))
        return cell[0]

    return run
