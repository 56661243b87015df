"""What users call: to_static and the switches around it."""

import contextlib
import functools
import types
import warnings

import torch

from framejit import _C

__all__ = [
    "enable_to_static",
    "enable_to_static_guard",
    "graph_break",
    "is_capturing",
    "not_to_static",
    "reset",
    "stats",
    "to_static",
]

_BACKENDS = {None: None, "aten": None, "native": "native"}
_FROZEN_BACKENDS = {"native": "native, frozen"}


def backend_names():
    """One name for each back end: those that stand for the same one count once, by the last."""
    return sorted({backend: name for name, backend in _BACKENDS.items() if name is not None}.values())


def to_static(fn=None, *, full_graph=False, backend="aten", freeze=False):
    """Run a function or a module as captured graphs.

    Args:
        fn: a function, method, lambda, `functools.partial`, class method, static method, callable object, or
            `torch.nn.Module`. Without it, a decorator with these options is returned.
        full_graph: raise `framejit.GraphBreakError` (file, line, reason) instead of breaking the graph.
        backend: "aten" runs the recorded operators through LibTorch: results are bit for bit eager's. "native" runs
            elementwise operators in fused kernels, compiled for this processor, or for CUDA devices, when a graph is
            captured, and kept on disk (docs/kernels.md). Any callable `(fx.GraphModule, example_inputs) -> callable`
            is used as torch.compile uses it.
        freeze: with "native" only: you promise to leave parameters and buffers of modules as they are while you infer.
            Graphs without gradients then compute once what depends on these alone, batch norm becomes part of the
            convolution in front of it, and convolutions and products get their weights in a layout of oneDNN's
            (docs/kernels.md says which changes are noticed all the same). It takes memory for a second copy of weights.

    Returns:
        For a module, the module itself: its `state_dict` keys, class and attributes are untouched. For a class or
        static method, one of the same kind. For anything else a `StaticFunction`, called like the original.

    Raises:
        TypeError: `fn` cannot be called.
        ValueError: there is no back end of that name, or it cannot freeze.

    Tensor arguments may have any shape; a call whose shapes, dtypes or other guards are new captures again. Generator
    and coroutine functions run eagerly.
    """
    if fn is None:
        return functools.partial(to_static, full_graph=full_graph, backend=backend, freeze=freeze)
    options = {"full_graph": full_graph, "backend": _resolve_backend(backend, freeze)}
    if isinstance(fn, torch.nn.Module):
        return _module_to_static(fn, options)
    if isinstance(fn, (classmethod, staticmethod)):
        return type(fn)(_callable_to_static(fn.__func__, options))
    return _callable_to_static(fn, options)


def _resolve_backend(backend, freeze):
    if freeze and not (isinstance(backend, str) and backend in _FROZEN_BACKENDS):
        raise ValueError(
            "freeze=True needs one of the back ends {}, got {!r}".format(sorted(_FROZEN_BACKENDS), backend)
        )
    if backend is not None and not isinstance(backend, str):
        if not callable(backend):
            raise TypeError("backend must be a name or a callable, got {}".format(type(backend).__name__))
        return backend
    if backend not in _BACKENDS:
        raise ValueError("no back end {!r}; there are {}".format(backend, sorted(filter(None, _BACKENDS))))
    if backend == "native":
        _warn_without_kernels()
    return _FROZEN_BACKENDS[backend] if freeze else _BACKENDS[backend]


@functools.lru_cache(maxsize=None)
def _warn_without_kernels():
    """Once in a process: where there is no compiler, what is captured runs as with "aten"."""
    why_not = _C.why_no_kernels()
    if why_not:
        warnings.warn('framejit: back end "native" runs as "aten" here: {}'.format(why_not), stacklevel=4)


def _callable_to_static(fn, options):
    if isinstance(fn, _C.StaticFunction):
        fn = fn.__wrapped__
    if isinstance(fn, types.FunctionType):
        return _named_after(_C.StaticFunction(fn, **options), fn)
    if isinstance(fn, types.MethodType) and isinstance(fn.__func__, types.FunctionType):
        return _named_after(_C.StaticFunction(fn, **options), fn)
    if isinstance(fn, types.MethodType) and isinstance(fn.__func__, _C.StaticFunction):
        return _callable_to_static(types.MethodType(fn.__func__.__wrapped__, fn.__self__), options)
    if not callable(fn):
        raise TypeError("to_static needs something to call, got {}".format(type(fn).__name__))
    call = type(fn).__call__
    if isinstance(call, types.FunctionType) and not isinstance(fn, type):
        return _named_after(_C.StaticFunction(types.MethodType(call, fn), **options), fn)
    return _named_after(_C.StaticFunction(_calling(fn), **options), fn)


def _calling(target):
    """A Python function that calls what is none: partials, builtins, classes, objects with a `__call__` of their own."""

    def call(*args, **kwargs):
        return target(*args, **kwargs)

    return call


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def _named_after(static, fn):
    for name in _NAMES:
        value = getattr(fn, name, None)
        if isinstance(value, str):
            static.__dict__[name] = value
    annotations = getattr(fn, "__annotations__", None)
    if isinstance(annotations, dict):
        static.__dict__["__annotations__"] = annotations
    return static


def _module_to_static(module, options):
    if not hasattr(torch.nn.Module, "_compiled_call_impl"):
        raise RuntimeError("torch {} has no slot for a compiled call in nn.Module".format(torch.__version__))
    # torch's own slot: nn.Module.__call__ uses it, state_dict and copies do not see it.
    module._compiled_call_impl = _C.StaticFunction(module._call_impl, **options)
    return module


def not_to_static(fn):
    """Make a function, method or module run eagerly always; a capture breaks where it is called.

    Usable as a decorator. Returns `fn` itself. For a module, that one instance runs eagerly, others of its class are not
    touched.

    Raises:
        TypeError: `fn` is neither a Python function, a method of one, nor a module.
    """
    if isinstance(fn, torch.nn.Module):
        fn._compiled_call_impl = None
        fn.forward = types.MethodType(_eager_copy(type(fn).forward), fn)
        return fn
    function = fn
    if isinstance(function, (classmethod, staticmethod)):
        function = function.__func__
    if isinstance(function, _C.StaticFunction):
        fn = function = function.__wrapped__
    if isinstance(function, types.MethodType):
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        raise TypeError("not_to_static needs a Python function or a module, got {}".format(type(fn).__name__))
    _C.mark_eager(function.__code__)
    return fn


def _eager_copy(function):
    """The same function with a code object of its own, which is marked."""
    if isinstance(function, _C.StaticFunction):
        function = function.__wrapped__
    copy = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    _C.mark_eager(copy.__code__)
    return copy


def enable_to_static(flag=True):
    """Switch framejit on or off for the process. While it is off, every StaticFunction runs eagerly."""
    _C.set_enabled(bool(flag))


@contextlib.contextmanager
def enable_to_static_guard(flag=True):
    """Switch framejit on or off inside a `with` block; what it was is restored, also after an exception."""
    before = _C.set_enabled(bool(flag))
    try:
        yield
    finally:
        _C.set_enabled(before)


def stats():
    """Totals since the last `reset`.

    Returns:
        dict: `captures`, `graphs`, `ops`, `breaks`, `break_reasons` (reason -> count), `fallbacks`, `hits`, `misses`,
        `shadowed`, `unshadowed`, `capture_s`.
    """
    return _C.stats()


def reset():
    """Drop every capture and all totals. StaticFunctions stay usable, and capture again at their next call."""
    _C.reset()


is_capturing = _C.is_capturing
graph_break = _C.graph_break
