"""The calls that PyTorch's sample database has for an operator, as functions to be captured with their arguments."""

from __future__ import annotations

import typing

import torch

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32,
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip
# Gradients are asked of these: each formula once for real and once for complex numbers.
GRADIENT_DTYPES = (torch.float32, torch.complex64)
UNINITIALISED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip


# LAPACK's gelsy reads pivots that torch 2.4's lstsq does not set: eager differs from itself in the last bits.
UNDETERMINED_DRIVER = "gelsy"


class Sample(typing.NamedTuple):
    """One call: `function(*args, **kwargs)`; `backward` is called on its result, outside the captured function."""

    text: str
    function: typing.Callable
    args: tuple
    kwargs: dict
    gradients: bool


def operators():
    """All entries of the database that this torch has, in its order."""
    from torch.testing._internal import common_methods_invocations as database

    # Its entries for random operators set a seed in the call; here each run sets it before.
    database.wrapper_set_seed = call_directly
    return database.op_db


def call_directly(function, *args, **kwargs):
    return function(*args, **kwargs)


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def samples_of(op, limit, dtypes):
    """Of each type that the operator takes, at most `limit` samples: called, as a method that writes in place, with gradients."""
    supported = op.supported_dtypes("cpu")
    for dtype in (dtype for dtype in dtypes if dtype in supported):
        yield from inputs_of(op, dtype, False, limit)
        if dtype in GRADIENT_DTYPES and op.supports_autograd:
            yield from inputs_of(op, dtype, True, limit)


def inputs_of(op, dtype, gradients, limit):
    torch.manual_seed(0)
    # The functions themselves: op.sample_inputs() looks through the stack's source for the test that asks.
    for number, sample in enumerate(op.sample_inputs_func(op, "cpu", dtype, gradients)):
        if limit is not None and number >= limit:
            return
        if sample.kwargs.get("driver") == UNDETERMINED_DRIVER:
            continue
        text = f"{full_name(op)} {str(dtype)[6:]}{', gradients' if gradients else ''}, sample {number}"
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        yield Sample(text, calling(op.op, full_name(op) in UNINITIALISED), args, kwargs, gradients)
        if op.inplace_variant is not None and not gradients and not sample.broadcasts_input:
            yield Sample(text + ", in place", calling(op.inplace_variant), args, kwargs, False)


# Of these types samples are laid out otherwise as well: layouts do not depend on much else.
LAYOUT_DTYPES = (torch.float32, torch.complex64, torch.int64)


def _reversed(x):
    return x.permute(*range(x.dim() - 1, -1, -1)).contiguous().permute(*range(x.dim() - 1, -1, -1))


def _swapped(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def _stepped(x):
    return x.new_empty(*x.shape[:-1], 2 * x.shape[-1])[..., ::2].copy_(x)


def _channels_last(x):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else x


LAYOUTS = {"reversed": _reversed, "swapped": _swapped, "stepped": _stepped, "channels last": _channels_last}


def laid_out(sample, layout):
    """The same call with its tensors in other strides, a key of LAYOUTS."""

    def lay_out(x):
        if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.dim() == 0 or x.is_conj() or x.is_neg():
            return x
        return LAYOUTS[layout](x.detach()).requires_grad_(x.requires_grad)

    args, kwargs = torch.utils._pytree.tree_map(lay_out, (sample.args, sample.kwargs))
    return sample._replace(text=f"{sample.text}, {layout}", args=args, kwargs=kwargs)


def errors_of(op):
    """The calls that the operator must refuse."""
    if op.error_inputs_func is None:
        return
    for number, error in enumerate(op.error_inputs_func(op, "cpu")):
        sample = error.sample_input
        text = f"{full_name(op)}, refused {number}"
        yield Sample(text, calling(op.op), (sample.input, *sample.args), dict(sample.kwargs), False)


def calling(operator, uninitialised=False):
    """A function of its own for each sample, so that none is captured after another."""

    def call(*args, **kwargs):
        return operator(*args, **kwargs)

    def call_and_fill(*args, **kwargs):
        return operator(*args, **kwargs).fill_(1)

    return call_and_fill if uninitialised else call


def backward(result):
    """Gradients of all that the call returned, for weights of one."""
    leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if leaves:
        torch.autograd.backward(leaves, [torch.ones_like(t) for t in leaves])
