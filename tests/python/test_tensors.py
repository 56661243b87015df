"""Tensor code inside captured functions: factories, views, in-place, indexing, dtypes, attributes, aliasing."""

import pytest
import torch

import framejit
from support.same_as_eager import assert_same_as_eager

BIAS = torch.tensor([1.0, 2.0, 3.0])


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def x23():
    return torch.arange(6.0).reshape(2, 3)


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


# Operators


def test_operators():
    def f(x, y):
        return [
            x + y, x - y, x * y, x / y, x // y, x % y, x**2, 2**x, -x, +x, abs(x), x @ y, x > y, x >= y, x < y, x <= y, x == y, x != y,
            1 + x, 1 - x, 2 * x, 1 / y, 7 // y, (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0), x.round(), divmod(7, 2),
        ]  # fmt: skip

    check(f, x3(), x3() + 3)


def test_integer_tensor_operators():
    check(lambda n: [n << 1, n >> 1, n & 3, n | 8, n ^ 1, ~n, n // 2, n % 2, n / 2, n**2, n + True], torch.tensor([1, 5, 9]))


def test_inplace_operators_on_fresh_tensors():
    def f(x):
        y = x + 0
        y += 1
        y -= x
        y *= 2
        y /= 3
        y **= 2
        y.clamp_(0, 1).mul_(4).neg_()
        z = torch.zeros(3)
        z.copy_(y)
        z[0] = 7
        z[1:] += x[1:]
        return y, z

    check(f)


def test_methods_and_functions():
    def f(x):
        return [
            x.sum(), x.mean(0, keepdim=True), x.max(), x.argmax(), x.std(), x.softmax(-1), x.norm(), x.cumsum(0), x.sort(), x.clamp(min=0),
            torch.where(x > 0, x, -x), torch.stack([x, x]), torch.cat([x, x[:1]]), torch.einsum("i,j->ij", x, x), x.var(unbiased=False),
            torch.outer(x, x), x.repeat(2), x.flip(0), x.roll(1), x.masked_fill(x < 0, 9), x.gather(0, torch.tensor([2, 0])), x.topk(2),
        ]  # fmt: skip

    check(f)


def test_out_argument():
    out = torch.empty(3)
    check(lambda x: torch.add(x, 1, out=out), breaks=None)


# Factories


def test_factories():
    def f(x):
        return [
            torch.zeros(2, 3), torch.ones(3, dtype=torch.int32), torch.full((2,), 7.0), torch.arange(5), torch.arange(1, 2, 0.25), torch.eye(2),
            torch.linspace(0, 1, 3), torch.zeros_like(x), x.new_ones(2), torch.tensor([1, 2]), torch.tensor(2.5), torch.as_tensor([[1.0]]),
            torch.tensor(3, dtype=torch.float16), torch.tensor([[True]]), torch.ones_like(x, dtype=torch.long), torch.triu(torch.ones(3, 3)),
            torch.full_like(x, 2), torch.empty(0), x.new_tensor([1.0, 2.0]), torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij"),
        ]  # fmt: skip

    check(f)


def test_tensor_made_from_computed_numbers():
    check(lambda x: x + torch.tensor([i * 0.5 for i in range(x.shape[0])]) + torch.tensor(len(x)))


def test_constant_tensor_is_not_shared_between_calls():
    def f(x):
        y = torch.tensor([1.0, 2.0, 3.0])
        y += x
        return y

    check(f)


def test_random_tensors_draw_eagers_numbers():
    def f(x):
        noise = torch.rand(3) + torch.randn(3) + torch.randint(0, 5, (3,)) + torch.rand_like(x)
        drop = torch.nn.functional.dropout(x, 0.5)
        permutation = torch.randperm(3)
        return x + noise, drop, permutation, x.bernoulli(0.3), torch.normal(0.0, 1.0, (2,)), torch.empty(2).uniform_()

    check(f)


def test_manual_seed_inside():
    def f(x):
        torch.manual_seed(5)
        return x + torch.rand(3)

    check(f, breaks=None)


def test_generator_argument():
    generator = torch.Generator()

    def f(x):
        return x + torch.rand(3, generator=generator)

    def make():
        generator.manual_seed(3)
        return (x3(),), {}

    check(f, make=make, breaks=None)


# Views, aliasing, outputs that are inputs


def test_views_of_inputs_are_views():
    check(lambda x: (x.view(3, 2), x.t(), x[0], x[:, 1:], x.unsqueeze(0), x.expand(2, 2, 3), x.permute(1, 0), x.flatten(), x.detach()), x23())


def test_views_of_results_share_storage():
    def f(x):
        y = x + 1
        return y, y[0], y.t(), y.view(-1), [y.unbind()[1]]

    check(f, x23())


def test_chunks_and_splits():
    check(lambda x: (*x.chunk(3, 1), *x.split([1, 2], 1), *torch.unbind(x + 1), *(x * 2).tensor_split(2)), x23())


def test_outputs_that_are_inputs():
    check(lambda x, y: (x, [y], x + y, {"x": x}), x3(), x3())
    check(lambda x: x, x3(), graphs=0)


def test_contiguous_and_to_return_the_same_tensor():
    check(lambda x: (x.contiguous() is x, x.to(torch.float32) is x, x.float() is x, x.cpu() is x, x.contiguous(), x.to(x.dtype), x + 1))


def test_inplace_on_inputs():
    def f(x, y):
        x.add_(1)
        y[0] = x[1]
        y[1:].mul_(3)
        x.t_() if x.dim() == 2 else x
        return x.sum() + y

    check(f, x3(), x3())


def test_inplace_on_a_view_of_an_input():
    def f(x):
        row = x[0]
        row.add_(10)
        x[:, 1] = 7
        x.view(-1)[5] = -1
        return x * 2, row

    check(f, x23())


def test_inplace_on_a_global_and_on_a_closure_tensor():
    seen = torch.zeros(3)

    def f(x):
        BIAS.mul_(2)
        seen.add_(x)
        return x + BIAS + seen

    check(f)


def test_inplace_through_aliased_inputs():
    base = torch.arange(6.0)

    def f(a, b):
        a.add_(1)
        return b * 2, a

    check(f, base[:4], base[2:])


def test_read_before_and_after_an_inplace_write():
    def f(x):
        before = x.clone()
        view = x[1:]
        x.mul_(10)
        return before, view + 0, x.sum(), before + x

    check(f)


def test_metadata_changed_in_place():
    def f(x):
        x.unsqueeze_(0)
        y = x.clone().resize_(2, 2)
        x.squeeze_(0)
        return y.shape, x.t_() if x.dim() == 2 else x + 1

    check(f, breaks=None)


def test_requires_grad_set_inside():
    def f(x):
        y = (x * 2).requires_grad_()
        z = x.detach()
        return y, y * 3, z.requires_grad, y.requires_grad, y.is_leaf

    check(f, breaks=None)


def test_data_attribute():
    def f(x):
        y = x.data * 2
        x.data = x.data + 1
        return y, x * 1

    check(f, breaks=None)


# Attributes and sizes


def test_attributes():
    def f(x):
        return x + 1, [
            x.shape, x.dtype, x.device, x.ndim, x.requires_grad, x.is_leaf, x.layout, x.is_cuda, x.is_contiguous(), x.stride(), x.numel(), x.size(),
            x.size(-1), x.dim(), len(x), x.element_size(), x.is_floating_point(), x.storage_offset(), x.T.shape, x.itemsize, x.nbytes,
            x.grad, x.grad_fn, x.is_complex(), x.nelement(), x.is_sparse, getattr(x, "names", None), x.type(), x.get_device(), torch.is_tensor(x), torch.numel(x),
        ]  # fmt: skip

    check(f, x23())


def test_size_arithmetic():
    def f(x):
        b, n = x.shape
        size = x.size() + (1,)
        return x.view(b * n), size, type(x.shape), x.shape[1:], x.shape == (2, 3), x.shape.numel(), [*x.shape], x.reshape(*x.shape[::-1], 1)

    check(f, x23())


def test_attributes_written_on_a_tensor():
    def f(x):
        y = x + 1
        y.tag = "fresh"
        x.seen = y
        return y, y.tag, x.seen is y

    check(f, breaks=None)


def test_dtype_conversions():
    check(lambda x: [x.double(), x.half(), x.long(), x.bool(), x.to(torch.bfloat16), x.to("cpu", torch.int8), x.type(torch.int16), x.int() + 0.5])


def test_finfo_and_promotion():
    check(lambda x: (x + torch.finfo(x.dtype).eps, torch.finfo(torch.float16).max, torch.iinfo(torch.int8).min, torch.promote_types(x.dtype, torch.int8)))


def test_complex_numbers():
    check(lambda z: [z.real, z.imag, z.conj(), z.abs(), z * 1j, torch.view_as_real(z), z.conj() * z, z.angle()], torch.tensor([1 + 2j, 3 - 1j]))


def test_meta_tensors():
    check(lambda x: (x + 1, x.shape, x @ x.t()), torch.empty(2, 3, device="meta"))


def test_moved_between_devices():
    check(lambda x: (x.cpu() + 1, x.to("cpu"), x.to(torch.device("cpu"), copy=True)))


def test_empty_and_scalar_tensors():
    check(lambda x: [x.sum(), x * 2, torch.cat([x, torch.ones(1)])], torch.empty(0))
    check(lambda x: [x + 1, x.unsqueeze(0), x.expand(3)], torch.tensor(2.0))


# Indexing


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, None), (0, 1), (slice(None), 0), ..., (..., None), None, (slice(0, 2), slice(None, None, 2)), [1, 0], ([0, 1], [2, 0])],
    ids=repr,
)
def test_index_is_read_and_written(index):
    def f(x):
        y = x.clone()
        y[index] = 5.0
        return x[index] * 2, y

    check(f, x23())


def test_index_with_tensors():
    rows, mask = torch.tensor([1, 0, 1]), torch.tensor([True, False])

    def f(x):
        y = x.clone()
        y[rows, 0] = -1.0
        y.index_put_((rows,), torch.ones(3, 3), accumulate=True)
        return x[rows], x[rows, torch.tensor([0, 1, 2])], x[:, rows[:1]], y, x.index_select(1, rows), x.take(rows)

    check(f, x23())
    check(lambda x: x[mask] + 1, x23(), breaks=None, graphs=None)


def test_index_with_numbers_computed_from_sizes():
    check(lambda x: (x[:, -1], x[len(x) // 2 :], x[..., : x.size(-1) - 1], x[1:][0]), x23())


# Higher-level torch


def test_vmap_grad_and_jvp():
    def f(x):
        return [
            torch.func.vmap(torch.sin)(x), torch.func.grad(lambda v: (v**3).sum())(x), torch.func.vmap(torch.func.grad(torch.sin))(x),
            torch.func.jvp(torch.sin, (x,), (x,)), torch.func.vmap(lambda a, b: a * b, in_dims=(0, None))(x, x), torch.func.jacrev(torch.sin)(x),
        ]  # fmt: skip

    check(f, breaks=None, graphs=None)


def test_linear_algebra():
    matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    check(lambda m: [torch.linalg.inv(m), torch.linalg.norm(m), m.det(), torch.linalg.solve(m, m), m.trace(), torch.linalg.cholesky(m)], matrix)


def test_interpolation_and_padding():
    functional = torch.nn.functional
    check(lambda x: [functional.pad(x, (1, 1)), functional.interpolate(x[None, None], scale_factor=2.0), functional.one_hot(torch.arange(3))], x23())


def test_tensor_function_dispatch_mode():
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    def f(x):
        with Mode():
            return torch.sin(x) + 1

    check(f, breaks=None, graphs=None)


def test_dispatch_mode_around_a_compiled_call():
    from torch.utils._python_dispatch import TorchDispatchMode

    import framejit

    class Mode(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def seen_by_mode(run):
        with Mode() as mode:
            result = run(x3())
        return mode.seen, result

    def f(x):
        return torch.sin(x) + 1

    compiled = framejit.to_static(f)
    compiled(x3())
    names, expected = seen_by_mode(f)
    for _ in range(2):
        again, result = seen_by_mode(compiled)
        assert torch.equal(result, expected)
        assert again == names


def test_view_of_a_conjugate_is_one():
    def f(x):
        y = x.conj().t()
        return y.is_conj(), y[0].is_conj(), torch.view_as_real(y.resolve_conj()), y.conj().is_conj(), y.imag.is_neg()

    check(f, torch.randn(2, 3, dtype=torch.complex64))


def test_layout_of_results_whose_kernels_differ_by_device():
    """Meta kernels in Python take a tensor for one of CUDA where nothing tells them."""

    def f(x):
        u, _, vh = torch.linalg.svd(x)
        return u.stride(), vh.stride(), torch.linalg.eig(x)[1].stride()

    before = torch._meta_registrations.device_hint(torch.empty(2, device="meta"))
    check(f, torch.randn(3, 3))
    assert torch._meta_registrations.device_hint(torch.empty(2, device="meta")) == before == "cuda"


def test_operators_of_the_dispatcher_by_name():
    aten = torch.ops.aten

    def f(x):
        rows = torch.ops.aten.slice.Tensor(x, 0, 1) + aten.slice(x, 0, end=2)
        aten.add_.Tensor(rows, other=1, alpha=2)
        return rows, aten._softmax.default(rows, 0, half_to_float=False), aten.max.dim(rows, 1)

    check(f, torch.arange(6.0).view(3, 2))
    check(f, torch.arange(6.0, requires_grad=True).view(3, 2).detach().requires_grad_())
    with pytest.raises(IndexError):
        framejit.to_static(lambda x: aten.max.dim(x, 7))(x23())


def test_operator_that_leaves_the_versions_of_what_it_writes():
    """Nobody counts batch norm's writes to its statistics; `add_`'s are counted, and those of `_foreach_add_`."""

    def f(x, mean, variance, other):
        other.add_(1)
        torch._foreach_add_([other[:1]], 1)
        y = torch._native_batch_norm_legit(x, None, None, mean, variance, True, 0.1, 1e-5)[0]
        return y, mean.sum()

    tensors = (torch.arange(12.0).view(2, 3, 2), torch.zeros(3), torch.ones(3), torch.zeros(2))
    check(f, *tensors)
    before = [tensor._version for tensor in tensors]
    framejit.to_static(f)(*tensors)
    assert [tensor._version - version for tensor, version in zip(tensors, before)] == [0, 0, 0, 2]


def test_cuda_is_not_initialised_by_capture():
    check(lambda x: (x + 1, torch.cuda.is_available() and torch.cuda.is_initialized()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_moved_to_cuda_and_back():
    check(lambda x: (x.cuda() * 2).cpu())
