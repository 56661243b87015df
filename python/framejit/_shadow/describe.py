"""A comparable account of Python values, as lines of text, that two runs of one program must share.

Tensors are told apart by every bit: dtype, shape, strides, offset, device, autograd state, values, NaN payloads,
and which storage they share with which other tensor. Mutable objects get a number when first met and are named by
that number afterwards, so that identity relations (one list returned twice, an output that is an input) are part
of the account. Numbers and strings have no identity here: Python does not promise one.
"""

import collections
import enum
import functools
import hashlib
import inspect
import random
import types
import weakref

import torch

from framejit._shadow import containers

ATOMS = (type(None), bool, int, str, bytes, complex, type(Ellipsis), type(NotImplemented), range, slice)
TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
BUILTIN_CALLABLES = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType)
BUILTIN_ITERATORS = tuple(
    type(value)
    for value in (
        iter([]),
        iter(()),
        iter({}),
        iter({}.items()),
        iter({}.values()),
        iter(""),
        iter(range(0)),
        reversed([]),
    )
) + (enumerate, zip, map, filter)
# Slots that the compiled path fills by contract, so that they differ from eager's.
IGNORED_ATTRIBUTES = {"_compiled_call_impl"}


def tensor_bytes(tensor):
    """The values, row-major, bit for bit."""
    plain = with_memory(tensor).resolve_conj().resolve_neg().cpu()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    # Not contiguous(): that keeps any stride of a dimension of one item, which view() does not take.
    rows = torch.empty(plain.numel(), dtype=plain.dtype, device="cpu").copy_(plain.reshape(-1))
    return rows.view(torch.uint8).numpy().tobytes() if rows.numel() else b""


def with_memory(tensor):
    """The tensor without its history; zeros in memory for one of autograd's that are in none."""
    plain = tensor.detach()
    return torch.zeros_like(plain) if plain._is_zerotensor() else plain


class Describer:
    """Collects lines; `versions` maps id(tensor) to its version counter before the run."""

    def __init__(self, versions=None):
        self.lines = []
        self._numbers = {}
        self._storages = {}
        self._alive = []
        self._versions = versions or {}

    def describe(self, path, value):
        text = self._atom(value)
        if text is not None:
            self.lines.append(f"{path}: {text}")
            return
        number = self._numbers.get(id(value))
        if number is not None:
            self.lines.append(f"{path}: same object as #{number}")
            return
        self._numbers[id(value)] = number = len(self._numbers)
        self._alive.append(value)
        self._object(path, number, value)

    def _atom(self, value):
        kind = type(value)
        if kind is float:
            return f"float {value!r} {value.hex()}"
        if kind in ATOMS or kind in TORCH_ATOMS:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, torch.Size):
            return f"Size {tuple(value)!r}"
        if isinstance(value, enum.Enum):
            return f"enum {value!r}"
        if isinstance(value, type):
            return f"class {value.__module__}.{value.__qualname__}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, BUILTIN_CALLABLES):
            return f"builtin {getattr(value, '__qualname__', value.__name__)}"
        if kind is tuple and all(self._atom(item) is not None for item in value):
            return "constant tuple (" + ", ".join(self._atom(item) for item in value) + ")"
        return None

    def _object(self, path, number, value):
        head = f"{path}: #{number} {type(value).__name__}"
        if isinstance(value, torch.Tensor):
            self.lines.append(f"{head} {self._tensor(value)}")
            if value.is_leaf and value.grad is not None:
                self.describe(f"{path}.grad", value.grad)
            self._attributes(path, value)
        elif isinstance(value, types.FunctionType):
            self._function(path, head, value)
        elif isinstance(value, types.MethodType):
            self.lines.append(head)
            self.describe(f"{path}.__func__", value.__func__)
            self.describe(f"{path}.__self__", value.__self__)
        elif isinstance(value, types.CellType):
            self.lines.append(head)
            self._cell(path, value)
        elif isinstance(value, BUILTIN_ITERATORS):
            self._iterator(path, head, value)
        elif isinstance(value, types.GeneratorType):
            self.lines.append(f"{head} {value.__qualname__} {inspect.getgeneratorstate(value)}")
        else:
            self._container(path, head, value)

    def _tensor(self, value):
        text = f"{value.dtype} {tuple(value.shape)} {value.device} requires_grad={value.requires_grad}"
        text += f" is_leaf={value.is_leaf}"
        if value.layout != torch.strided:
            return f"{text} {value.layout} {hashlib.sha1(tensor_bytes(value)).hexdigest()}"
        text += f" strides={value.stride()} offset={value.storage_offset()}"
        if value.device.type != "meta":
            text += f" {self._storage(value)}"
        if id(value) in self._versions and not value.is_inference():
            text += f" version_changed={value._version != self._versions[id(value)]}"
        if value.device.type != "meta":
            shown = with_memory(value).reshape(-1)[:6].tolist()
            text += f" {hashlib.sha1(tensor_bytes(value)).hexdigest()[:16]} {shown}"
        return text

    def _storage(self, value):
        storage = value.untyped_storage()
        self._alive.append(storage)
        address = storage._cdata
        return f"storage {self._storages.setdefault(address, len(self._storages))}"

    def _cell(self, path, value):
        try:
            contents = value.cell_contents
        except ValueError:
            self.lines.append(f"{path}: empty cell")
            return
        self.describe(f"{path}.cell_contents", contents)

    def _function(self, path, head, value):
        self.lines.append(f"{head} {value.__module__}.{value.__qualname__} line {value.__code__.co_firstlineno}")
        for name in ("__defaults__", "__kwdefaults__", "__closure__"):
            if getattr(value, name):
                self.describe(f"{path}.{name}", getattr(value, name))
        self._attributes(path, value)

    def _iterator(self, path, head, value):
        try:
            state = value.__reduce__()
        except TypeError:
            self.lines.append(head)
            return
        self.lines.append(head)
        for index, part in enumerate(state[1:]):
            self.describe(f"{path}.state[{index}]", part)

    def _container(self, path, head, value):
        self.lines.append(f"{head} {type(value).__module__}")
        if isinstance(value, (list, tuple, collections.deque)):
            for index, item in enumerate(containers.elements(value)):
                self.describe(f"{path}[{index}]", item)
        elif isinstance(value, (dict, types.MappingProxyType)):
            for key, item in containers.items(value) if isinstance(value, dict) else value.items():
                self.describe(f"{path} key", key)
                self.describe(f"{path}[{key!r}]" if self._atom(key) else f"{path}[...]", item)
        elif isinstance(value, (set, frozenset)):
            self._set(path, value)
        elif isinstance(value, (bytearray, memoryview)):
            self.lines.append(f"{path}: bytes {bytes(value)!r}")
        elif isinstance(value, functools.partial):
            self.describe(f"{path}.func", value.func)
            self.describe(f"{path}.args", value.args)
            self.describe(f"{path}.keywords", value.keywords)
        elif isinstance(value, BaseException):
            self.describe(f"{path}.args", value.args)
        elif isinstance(value, weakref.ref):
            self.describe(f"{path}()", value())
        elif isinstance(value, torch.Generator):
            self.lines.append(f"{path}: state {hashlib.sha1(tensor_bytes(value.get_state())).hexdigest()}")
        elif isinstance(value, random.Random):
            self.lines.append(f"{path}: state {hash(value.getstate())}")
        self._attributes(path, value)

    def _set(self, path, value):
        texts = [self._atom(item) for item in containers.elements(value)]
        atoms = sorted(text for text in texts if text is not None)
        others = texts.count(None)
        self.lines.append(f"{path}: {{{', '.join(atoms)}}} and {others} objects")

    def _attributes(self, path, value):
        for name, item in list(getattr(value, "__dict__", {}).items()):
            if name not in IGNORED_ATTRIBUTES:
                self.describe(f"{path}.{name}", item)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    self.describe(f"{path}.{name}", getattr(value, name))
