#!/usr/bin/env python3
"""Writes what LibTorch's operators really return, as graphs of one node for graph_check.

record_operators.py OUT.txt [NAME...]    forward and backward of real models, all or these
"""

import sys
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = {
    torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.bool: "bool",
    torch.complex32: "c32", torch.complex64: "c64", torch.complex128: "c128", torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fn: "f8e4m3fn", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}  # fmt: skip
MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format", torch.preserve_format: "preserve_format",
    torch.channels_last: "channels_last", torch.channels_last_3d: "channels_last_3d",
}  # fmt: skip


# What a schema's default calls the types above.
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 15, 11, 8, 9, 10, 23, 24, 27, 28, 29)


class Unsupported(Exception):
    """A call that the textual form has no words for."""


def contiguous_strides(sizes):
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.insert(0, stride)
        stride *= max(size, 1)
    return strides


def tensor_text(t):
    if t is None:
        return "none"
    if t.layout != torch.strided or t.dtype not in DTYPES or t.is_conj() or t.is_neg() or t.is_nested:
        raise Unsupported
    text = "tensor<" + "".join(f"{s}x" for s in t.shape) + f"{DTYPES[t.dtype]}, {t.device}"
    if list(t.stride()) != contiguous_strides(t.shape):
        text += ", strides=[" + ", ".join(map(str, t.stride())) + "]"
    if t.storage_offset():
        text += f", offset={t.storage_offset()}"
    return text + ">"


def float_text(v):
    if v != v:
        return "nan"
    if v in (float("inf"), float("-inf")):
        return "inf" if v > 0 else "-inf"
    # The shortest text that reads back, with an exponent where C++'s printer has one.
    text = repr(float(v))
    return text


def literal(v):
    if v is None:
        return "none"
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, int):
        return str(v)
    if isinstance(v, float):
        return float_text(v)
    if isinstance(v, complex):
        return f"complex({float_text(v.real)}, {float_text(v.imag)})"
    if isinstance(v, str):
        return '"' + v + '"'
    if isinstance(v, torch.dtype):
        return DTYPES[v]
    if isinstance(v, torch.memory_format):
        return MEMORY_FORMATS[v]
    if isinstance(v, torch.device):
        return str(v)
    if isinstance(v, torch.layout):
        if v is torch.strided:
            return "strided"
        raise Unsupported
    if isinstance(v, torch.Generator):
        return "const<0>"
    raise Unsupported


def list_text(kind, values):
    if not values:
        return "floats[]" if kind.startswith("float") else "bools[]" if kind.startswith("bool") else "[]"
    if len({type(v) for v in values}) > 1:
        raise Unsupported
    return "[" + ", ".join(literal(v) for v in values) + "]"


class Call:
    """One call, as the text of a graph."""

    def __init__(self, func, args, kwargs):
        self.inputs, self.texts, self.storages = {}, [], []
        schema = func._schema
        values = []
        for i, arg in enumerate(schema.arguments):
            if not arg.kwarg_only and i < len(args):
                values.append(args[i])
            elif arg.name in kwargs:
                values.append(kwargs[arg.name])
            else:
                values.append(arg.default_value)
        self.operands = [self.operand(str(a.type), v) for a, v in zip(schema.arguments, values)]
        self.name = schema.name.replace("::", ".") + ("." + schema.overload_name if schema.overload_name else "")
        if func.namespace != "aten":
            raise Unsupported

    def value(self, t):
        if t is None:
            return "none"
        if id(t) not in self.inputs:
            self.inputs[id(t)] = (len(self.inputs), t)
            self.texts.append(tensor_text(t))
        return f"%{self.inputs[id(t)][0]}"

    def operand(self, kind, v):
        if isinstance(v, torch.Tensor):
            return self.value(v)
        if isinstance(v, (list, tuple)):
            if "Tensor" in kind:
                return "[" + ", ".join(self.value(t) for t in v) + "]" if v else "values[]"
            return list_text(kind.replace("List[", ""), list(v))
        if "ScalarType" in kind and isinstance(v, int):
            return dict(zip(NUMBERS, DTYPES.values()))[v]
        return literal(v)

    def result(self, r):
        if r is None:
            return "none"
        if not isinstance(r, torch.Tensor):
            if isinstance(r, (bool, int, float)):
                return type(r).__name__
            raise Unsupported
        text = tensor_text(r)
        if id(r) in self.inputs:
            return f"{text} same %{self.inputs[id(r)][0]}"
        for number, t in self.inputs.values():
            if t.untyped_storage()._cdata == r.untyped_storage()._cdata:
                return f"{text} view %{number}"
        return text

    def text(self, out):
        results = list(out) if isinstance(out, (list, tuple)) else [] if out is None else [out]
        n = len(self.inputs)
        left = ", ".join(f"%{n + i}" for i in range(len(results)))
        right = ", ".join(self.result(r) for r in results)
        inputs = ", ".join(f"%{i}: {t}" for i, t in enumerate(self.texts))
        node = f"{left} = " if results else ""
        node += f"{self.name}({', '.join(self.operands)})" + (f" : {right}" if results else "")
        return f"graph @op ({inputs}) {{\n  {node}\n  return\n}}\n"


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen, self.skipped = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            call = Call(func, args, kwargs)
        except Unsupported:
            call = None
        out = func(*args, **kwargs)
        if call is not None:
            try:
                self.seen[call.text(out)] = None
                return out
            except Unsupported:
                pass
        self.skipped += 1
        return out


def record_models(names):
    from model_samples import MODELS

    for name, make in MODELS.items():
        if names and name not in names:
            continue
        try:
            with Recorder() as recorder:
                make()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        print(f"{name}: {len(recorder.seen)} different calls, {recorder.skipped} without words", file=sys.stderr)
        yield from recorder.seen


def backward(out):
    leaves = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    if leaves:
        torch.autograd.backward(leaves, [torch.ones_like(t) for t in leaves])


def main():
    out, names = sys.argv[1], sys.argv[2:]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    seen = set()
    with open(out, "w") as file:
        for text in record_models(names):
            if text not in seen:
                seen.add(text)
                file.write(text)
                file.flush()
    print(f"{len(seen)} graphs in {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
