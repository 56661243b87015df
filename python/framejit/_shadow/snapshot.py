"""Everything mutable that a function can reach, and the way back to how it was.

`Snapshot(fn, args, kwargs)` walks arguments, closure cells, defaults, the globals that the code names, attributes
and containers; `restore()` undoes what a run changed, in place, writing only what differs, so that the same objects
can be given to an eager run and to a compiled one (a module must stay that module to hit its guards).
"""

import array
import collections
import collections.abc
import functools
import logging
import random
import threading
import types

import torch

from framejit import _C
from framejit._shadow import containers, scope

try:
    import numpy
except ImportError:  # framejit does not need it
    numpy = None

MISSING = object()
# Reached from any global that names one, with files at their ends: not state of the program.
NOT_STATE = (logging.Logger, logging.Handler)
# Most of what a walk meets: nothing lies behind them.
ATOMS = frozenset((int, float, complex, bool, str, bytes, type(None), type(...), types.CodeType))
# What a method of C code may change.
CONTAINERS = (list, dict, set, collections.deque, bytearray)

# Reading one changes it, or its state is out of reach or another thread's too. Files are iterators.
NOT_PUT_BACK = (
    collections.abc.Iterator,
    collections.abc.AsyncIterator,
    collections.abc.Coroutine,
    memoryview,
    type(threading.Lock()),
    type(threading.RLock()),
)


def names_used(code):
    """Names of globals and attributes in `code` and in the code nested in it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_used(constant)
    return names


class Snapshot:
    """The state reachable from a function and its arguments, at the time of construction."""

    def __init__(self, *roots):
        self._seen = {}
        self._records = []
        self._globals = {}
        self._tensors = []
        self.lost = []  # kinds of what was found and cannot be put back
        self.versions = {}  # id of a tensor -> its version counter before the run
        self._pending = list(roots)
        with torch._C.DisableTorchFunctionSubclass():
            while self._pending:
                self._visit(self._pending.pop())
            self._look_for_backward()

    def restore(self):
        with torch._C.DisableTorchFunctionSubclass():
            for restore, target, saved in self._records:
                restore(target, saved)
            # What that let go of may have changed some of it as it ended: a generator that was closed, an exception's.
            for restore, target, saved in self._records:
                if restore is not restore_tensor:
                    restore(target, saved)
        for (_, name), (namespace, saved) in self._globals.items():
            if saved is MISSING:
                namespace.pop(name, None)
            elif namespace.get(name, MISSING) is not saved:
                namespace[name] = saved
        with torch._C.DisableTorchFunctionSubclass():
            for tensor in self._tensors:
                if not tensor.is_inference() and tensor._version != self.versions[id(tensor)]:
                    set_version(tensor, self.versions[id(tensor)])

    def lost_by_run(self):
        """Kinds of what a run has changed and `restore` cannot put back: the history of tensors that are no leaves."""
        with torch._C.DisableTorchFunctionSubclass():
            return [
                "the history of a tensor"
                for _, tensor, state in self._records
                if isinstance(state, TensorState) and not state.is_leaf and tensor.grad_fn is not state.grad_fn
            ]

    def named_globals(self):
        """(name, value or MISSING) of each global that the code names, now, in a stable order."""
        for (_, name), (namespace, _) in sorted(self._globals.items(), key=lambda item: item[0][1]):
            yield name, namespace.get(name, MISSING)

    def cells(self):
        """The closure cells found, in the order of the walk."""
        return [value for value in self._seen.values() if isinstance(value, types.CellType)]

    def classes(self):
        """The classes of the program's own code found, in the order of the walk."""
        return [target for restore, target, _ in self._records if restore is restore_class]

    def _visit(self, value):
        if type(value) in ATOMS or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            self._visit_tensor(value)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value)
        elif isinstance(value, types.MethodType):
            self._pending += [value.__func__, value.__self__]
        elif isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, CONTAINERS):
            self._pending.append(value.__self__)
        elif isinstance(value, (classmethod, staticmethod)):
            self._pending.append(value.__func__)
        elif isinstance(value, property):
            self._pending += [part for part in (value.fget, value.fset, value.fdel) if part]
        elif isinstance(value, types.CellType):
            self._record(restore_cell, value, cell_contents(value))
        elif isinstance(value, type):
            self._visit_class(value)
        elif isinstance(value, _C.StaticFunction):
            self._pending.append(value.__wrapped__)
        elif isinstance(value, NOT_PUT_BACK):
            self.lost.append(type(value).__name__)
        elif not isinstance(value, NOT_STATE + (types.ModuleType,)):
            self._visit_container(value)

    def _record(self, restore, target, saved):
        self._records.append((restore, target, saved))
        self._pending += saved if isinstance(saved, (list, tuple)) else [saved]

    def _visit_container(self, value):
        if isinstance(value, (list, collections.deque, bytearray, array.array)):
            self._record(containers.restore_sequence, value, containers.elements(value))
        elif isinstance(value, dict):
            self._visit_dict(value)
        elif isinstance(value, set):
            self._record(containers.restore_set, value, containers.elements(value))
        elif isinstance(value, (tuple, frozenset)):
            self._pending += containers.elements(value)
        elif isinstance(value, functools.partial):
            self._pending += [value.func, value.args, value.keywords]
        elif isinstance(value, random.Random):
            self._records.append((restore_random, value, value.getstate()))
        elif isinstance(value, torch.Generator):
            self._records.append((restore_generator, value, value.get_state()))
        elif numpy is not None and isinstance(value, numpy.ndarray):
            self._records.append((restore_array, value, value.copy()))
        self._visit_attributes(value)

    def _visit_dict(self, value):
        if containers.reading_runs_code(value):
            self.lost.append("an OrderedDict with keys whose hash is Python code")
            return
        pairs = containers.items(value)
        self._records.append((containers.restore_dict, value, pairs))
        self._pending += [part for pair in pairs for part in pair]

    def _visit_attributes(self, value):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._visit_dict(attributes)
            self._pending.append(type(value))
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    self._record(restore_slot, (value, name), [getattr(value, name, MISSING)])

    def _visit_tensor(self, tensor):
        self._tensors.append(tensor)
        self.versions[id(tensor)] = None if tensor.is_inference() else tensor._version
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            self.lost.append(
                f"{tensor.layout} tensor" if tensor.layout != torch.strided else "quantized or nested tensor"
            )
        self._records.append((restore_tensor, tensor, TensorState(tensor)))
        if tensor.is_leaf and tensor.grad is not None:
            self._pending.append(tensor.grad)
        if _C.has_node_hooks(tensor):
            self.lost.append("hooks of a node of the graph of gradients")
        self._pending += [tensor._backward_hooks, tensor._post_accumulate_grad_hooks]
        self._visit_attributes(tensor)

    def _visit_function(self, function):
        if not scope.is_user_function(function):
            return
        for cell in function.__closure__ or ():
            self._pending.append(cell)
        self._pending += [function.__defaults__, function.__kwdefaults__]
        self._records.append(
            (restore_function, function, (function.__code__, function.__defaults__, function.__kwdefaults__))
        )
        self._visit_attributes(function)
        names = names_used(function.__code__)
        self._visit_names(function.__globals__, names)
        for name in names:
            module = function.__globals__.get(name)
            if isinstance(module, types.ModuleType) and scope.is_user_module(module.__name__):
                self._visit_names(vars(module), names & set(vars(module)))

    def _look_for_backward(self):
        """A graph of gradients from before the run can be walked backward once only."""
        names = {name for _, name in self._globals}
        if names & {"backward", "autograd"} and any(not tensor.is_leaf for tensor in self._tensors):
            self.lost.append("a graph of gradients, with the name of a backward")

    def _visit_names(self, namespace, names):
        for name in names:
            if (id(namespace), name) not in self._globals:
                saved = namespace.get(name, MISSING)
                self._globals[id(namespace), name] = (namespace, saved)
                self._pending.append(saved)

    def _visit_class(self, cls):
        if not scope.is_user_class(cls):
            return
        public = {name: item for name, item in vars(cls).items() if not name.startswith("__")}
        self._records.append((restore_class, cls, public))
        self._pending += [*vars(cls).values(), *cls.__bases__, type(cls)]


class TensorState:
    """Values, metadata and autograd state of one tensor."""

    def __init__(self, tensor):
        self.alias = tensor.detach()
        self.values = tensor.detach().clone()
        self.requires_grad = tensor.requires_grad
        self.is_leaf = tensor.is_leaf
        self.grad_fn = tensor.grad_fn
        self.grad = tensor.grad if tensor.is_leaf else None
        self.grad_values = None if self.grad is None else self.grad.detach().clone()

    def metadata(self):
        return self.alias.shape, self.alias.stride(), self.alias.storage_offset(), self.alias.dtype


def restore_tensor(tensor, state):
    if tensor.layout != torch.strided:
        return
    with torch.no_grad():
        if state.is_leaf and not tensor.is_leaf:
            tensor.detach_()
        if (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype) != state.metadata() or (
            tensor.untyped_storage()._cdata != state.alias.untyped_storage()._cdata
        ):
            tensor.data = state.alias
        if tensor.device.type != "meta" and 0 not in tensor.stride():
            write_values(tensor, state.values)
        if state.is_leaf and tensor.requires_grad != state.requires_grad:
            tensor.requires_grad_(state.requires_grad)
        if state.is_leaf and tensor.grad is not state.grad:
            tensor.grad = state.grad


def write_values(tensor, values):
    """Without a trace in the version counter."""
    if tensor.is_inference():
        with torch.inference_mode():
            tensor.copy_(values)
    else:
        tensor.data.copy_(values)


def set_version(tensor, version):
    setter = torch._C._autograd._unsafe_set_version_counter
    try:
        setter((tensor,), (version,))
    except TypeError:  # up to torch 2.5 it takes one
        setter(tensor, version)


def restore_random(generator, state):
    generator.setstate(state)


def restore_generator(generator, state):
    generator.set_state(state)


def restore_array(value, saved):
    if value.shape == saved.shape and value.flags.writeable:
        value[...] = saved


def cell_contents(cell):
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def restore_cell(cell, saved):
    if not saved:
        if cell_contents(cell):
            del cell.cell_contents
    elif not cell_contents(cell) or cell.cell_contents is not saved[0]:
        cell.cell_contents = saved[0]


def restore_slot(target, saved):
    value, name = target
    if saved[0] is MISSING:
        if hasattr(value, name):
            delattr(value, name)
    elif getattr(value, name, MISSING) is not saved[0]:
        object.__setattr__(value, name, saved[0])


def restore_function(function, saved):
    code, defaults, kwdefaults = saved
    if function.__code__ is not code:
        function.__code__ = code
    if function.__defaults__ is not defaults:
        function.__defaults__ = defaults
    if function.__kwdefaults__ is not kwdefaults:
        function.__kwdefaults__ = kwdefaults


def restore_class(cls, saved):
    for name in [name for name in vars(cls) if not name.startswith("__") and name not in saved]:
        delattr(cls, name)
    for name, item in saved.items():
        if vars(cls).get(name, MISSING) is not item:
            setattr(cls, name, item)
