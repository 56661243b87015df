"""What programs ask of a tensor, of tensors that differ in one respect or another: a capture for one is none for others."""

import pytest
import torch

import framejit


class Sub(torch.Tensor):
    pass


def _with(tensor, **attributes):
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


def _retaining():
    with torch.enable_grad():
        tensor = torch.ones(2, 3, requires_grad=True) * 1
    tensor.retain_grad()
    return tensor


def tensors():
    """New ones each time: some are changed by what is asked."""
    yield torch.ones(2, 3)
    yield torch.ones(2, 3, requires_grad=True)
    yield torch.ones(2, 3, requires_grad=True) * 1
    yield (torch.ones(2, 3, requires_grad=True) * 1).detach()
    yield torch.nn.Parameter(torch.ones(2, 3))
    yield torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex64, torch.float16):
        yield torch.ones(2, 3, dtype=dtype)
    yield torch.ones(2, 3, dtype=torch.complex64).conj()
    yield torch.ones(2, 3, dtype=torch.complex64).conj().imag
    yield torch.ones(3, 2).t()
    yield torch.ones(7)[1:].view(2, 3)
    yield torch.ones(1, 3).expand(2, 3)
    yield torch.ones(0, 3)
    yield torch.ones(())
    yield torch.ones(3)
    yield torch.ones(2, 3).as_subclass(Sub)
    yield _with(torch.ones(2, 3), foo=5)
    yield _with(torch.ones(2, 3), foo=6)
    yield _with(torch.ones(2, 3, requires_grad=True), grad=torch.ones(2, 3))
    yield _with(torch.ones(2, 3, requires_grad=True), grad=torch.zeros(2, 3))
    yield _retaining()
    yield torch.ones(2, 3).add_(1)
    yield torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)
    yield torch.ones(1, 2, 3, 4)
    yield torch.ones(2, 3, device="meta")
    with torch.inference_mode():
        inference = torch.ones(2, 3)
    yield inference


FACTS = [
    "x.requires_grad", "x.dtype", "x.shape", "x.size(0)", "x.stride()", "x.is_contiguous()", "x.is_contiguous(memory_format=torch.channels_last)",
    "x.grad is None", "x.device", "x.layout", "x.is_leaf", "len(x)", "x.storage_offset()", "x.is_conj()", "x.is_neg()", "hasattr(x, 'foo')",
    "getattr(x, 'foo', 0)", "type(x).__name__", "isinstance(x, torch.nn.Parameter)", "isinstance(x, Sub)", "x.is_sparse", "x.itemsize", "x.nbytes",
    "x.ndim", "x.T.shape", "x.numel()", "torch.result_type(x, 1.0)", "x.is_floating_point()", "torch.is_complex(x)", "x.grad_fn is None",
    "x.is_inference()", "x.is_cpu", "x.is_meta", "x.is_signed()", "x.new_ones(1).dtype", "torch.ones_like(x).requires_grad",
    "torch.empty_like(x).stride()", "(x * 2).requires_grad", "(x + 1).dtype", "(x * 1.5).dtype", "x.sum().dtype", "x.real.dtype", "x.t().shape",
    "x.view(-1).shape", "x[0].shape", "[s for s in x.shape]", "x.shape == (2, 3)", "x.shape.numel()", "x.dtype.is_floating_point", "str(x.dtype)",
    "x.data.requires_grad", "x.detach().requires_grad", "x.untyped_storage().nbytes()", "x.retains_grad", "x.output_nr", "x._is_view()", "x._version",
    "x._base is None", "x.type()", "torch.can_cast(x.dtype, torch.int64)", "torch.finfo(x.dtype).bits", "torch.iinfo(x.dtype).max", "x is x.detach()",
    "x.contiguous() is x", "x.contiguous().stride()", "x.to(torch.float32) is x", "x.float() is x", "x.cpu() is x", "x.unbind(0)[0].shape",
    "x.squeeze().shape", "x.numpy().dtype.name", "x.tolist()", "x.__dict__", "x.grad.shape", "x.grad.sum().item()", "x.expand(2, 3).stride()",
    "x.abs().dtype", "torch.view_as_real(x).shape",
]  # fmt: skip


def _outcome(call):
    try:
        return repr(call())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_facts_are_those_of_the_tensor_at_hand(fact):
    names, y = {"torch": torch, "Sub": Sub}, torch.ones(2)
    plain = eval(f"lambda x: {fact}", names)
    compiled = framejit.to_static(eval(f"lambda x, y: ({fact}, y.sin())", names))
    for grad_mode in (True, False):
        with torch.set_grad_enabled(grad_mode):
            for at, tensor in enumerate(tensors()):
                if at % 10 == 0:
                    framejit.reset()
                expected = _outcome(lambda: plain(tensor))
                assert _outcome(lambda: compiled(tensor, y)[0]) == expected, (at, grad_mode)
    assert framejit.stats()["captures"] >= 1
