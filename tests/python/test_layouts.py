"""What a captured program is told of a result's strides is what the operator's kernel gives, for inputs in any layout."""

import pytest
import torch

import framejit

F = torch.nn.functional


def swapped(*sizes, dtype=torch.float32):
    """Its last two dimensions lie in memory the other way round."""
    return torch.rand(*sizes).to(dtype).transpose(-1, -2).contiguous().transpose(-1, -2)


def stepped(*sizes, dtype=torch.float32):
    """Every other element of memory."""
    return torch.rand(*sizes[:-1], 2 * sizes[-1]).to(dtype)[..., ::2]


def last(*sizes, dtype=torch.float32):
    """Channels last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.rand(*sizes).to(dtype).contiguous(memory_format=formats[len(sizes)])


def reflection_backward(gradient, x):
    return torch.ops.aten.reflection_pad2d_backward(gradient, x, [1, 1, 1, 1])


CASES = {
    "angle of complex numbers": (torch.angle, (swapped(3, 4, dtype=torch.complex64),)),
    "pow of a number": (lambda x: 2**x, (swapped(3, 4),)),
    "index_copy": (lambda x: x.index_copy(0, torch.tensor([0]), x[:1]), (swapped(3, 4),)),
    "index_add": (lambda x: x.index_add(0, torch.tensor([0]), x[:1]), (stepped(1),)),
    "slice_scatter": (lambda x: torch.slice_scatter(x, x[:1], 0, 1, 2), (stepped(3, 4),)),
    "select_scatter with an offset": (lambda x: torch.select_scatter(x[1:], x[0], 0, 0), (stepped(3, 4),)),
    "diagonal_scatter": (lambda x: torch.diagonal_scatter(x, x[0]), (stepped(4, 4),)),
    "select_scatter of what overlaps": (
        lambda x: torch.select_scatter(x[:1].expand(3, 4), x[0], 0, 0),
        (swapped(3, 4),),
    ),
    "stack of sizes of one": (lambda x: torch.stack([x, x, x]), (last(1, 2, 1, 4),)),
    "stack at the end": (lambda x: torch.stack([x, x], -1), (last(2, 3, 4, 5),)),
    "stack in the middle": (lambda x: torch.stack([x, x], 2), (last(2, 3, 4, 5),)),
    "bernoulli": (torch.bernoulli, (swapped(3, 4),)),
    "normal": (lambda x: torch.normal(x, x), (swapped(3, 4),)),
    "logsigmoid": (F.logsigmoid, (swapped(3, 4),)),
    "huber loss": (lambda x, y: F.huber_loss(x, y, reduction="none"), (swapped(3, 4), torch.rand(3, 4))),
    "replication": (lambda x: F.pad(x, (1, 0, 0, 1), mode="replicate"), (last(2, 4, 3, 5),)),
    "replication in three dimensions": (lambda x: F.pad(x, (1,) * 6, mode="replicate"), (last(2, 4, 3, 5, 2),)),
    "reflection in three dimensions": (lambda x: F.pad(x, (1,) * 6, mode="reflect"), (last(2, 4, 3, 5, 2),)),
    "reflection without a batch": (lambda x: F.pad(x, (1,) * 6, mode="reflect"), (last(4, 3, 5, 2),)),
    "reflection's gradient": (reflection_backward, (last(2, 3, 6, 7), last(2, 3, 4, 5))),
    "gated linear unit's gradient": (torch.ops.aten.glu_backward, (last(2, 3, 4, 5), last(2, 6, 4, 5), 1)),
    "ldexp": (torch.ldexp, (torch.rand(4, 1, 5), swapped(4, 5))),
    "losses of pixels": (
        lambda x, y: F.nll_loss(x, y, reduction="none"),
        (torch.rand(2, 3, 4, 5), swapped(2, 4, 5).long()),
    ),
    "one dimension in groups": (
        lambda x, w: F.conv1d(x, w, groups=2, dilation=2),
        (swapped(2, 2, 6), torch.rand(2, 1, 3)),
    ),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), (last(2, 4, 3, 5),)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (swapped(2, 3, 4, 5),)),
    "batch norm, strided weight": (
        lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
        (swapped(2, 3, 4), stepped(3)),
    ),
    "one dimension": (F.conv1d, (swapped(2, 3, 4), swapped(2, 3, 3))),
    "one dimension, transposed": (F.conv_transpose1d, (swapped(2, 3, 4), swapped(3, 2, 3))),
    "two dimensions of f64": (F.conv2d, (last(2, 3, 4, 5, dtype=torch.float64), torch.rand(2, 3, 2, 2).double())),
    "two dimensions of integers": (
        F.conv2d,
        (last(2, 3, 4, 5, dtype=torch.int64), torch.ones(2, 3, 2, 2, dtype=torch.int64)),
    ),
    "three dimensions of f64": (
        F.conv3d,
        (last(2, 3, 4, 4, 4, dtype=torch.float64), torch.rand(2, 3, 2, 2, 2).double()),
    ),
}


def told(function):
    def call(*args):
        result = function(*args)
        return result, result.stride(), result.storage_offset(), result.is_contiguous()

    return call


@pytest.mark.parametrize("name", CASES)
def test_strides_are_the_kernels(name):
    function, args = CASES[name]
    call = told(function)
    compiled = framejit.to_static(call, full_graph=True)
    for _ in range(2):
        torch.manual_seed(0)
        expected = call(*args)
        torch.manual_seed(0)
        found = compiled(*args)
        assert found[1:] == expected[1:]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, check_stride=True)
    assert framejit.stats()["fallbacks"] == 0


GRADIENTS = {
    "mse loss": (F.mse_loss, (swapped(3, 4), torch.rand(3, 4))),
    "smooth L1 loss": (F.smooth_l1_loss, (swapped(3, 4), torch.rand(3, 4))),
    "huber loss": (F.huber_loss, (swapped(3, 4), torch.rand(3, 4))),
    "binary cross-entropy": (F.binary_cross_entropy, (stepped(1), stepped(1))),
    "bicubic": (lambda x: F.interpolate(x, size=(3, 3), mode="bicubic"), (last(2, 3, 4, 5),)),
    "replication": (lambda x: F.pad(x, (1, 0, 0, 1), mode="replicate"), (last(2, 3, 4, 5),)),
    "one dimension": (F.conv1d, (swapped(2, 3, 4), swapped(2, 3, 3))),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_laid_out_as_in_eager(name):
    function, args = GRADIENTS[name]
    compiled = framejit.to_static(lambda *args: function(*args), full_graph=True)

    def gradient(call):
        x = args[0].detach().requires_grad_()
        doubled = x * 1  # no leaf: its gradient is as the backward made it
        return torch.autograd.grad(call(doubled, *args[1:]).sum(), doubled)[0]

    torch.testing.assert_close(gradient(compiled), gradient(function), rtol=0, atol=0, check_stride=True)


@pytest.mark.parametrize("n, c, o", [(1, 2, 2), (2, 2, 1), (2, 2, 4), (2, 4, 2)])
def test_layouts_that_the_kernel_alone_knows(n, c, o):
    """Whether oneDNN computes depends on sizes and threads. Where the answer was wrong the interpreter runs the code."""
    call = told(F.conv3d)
    x, weight = last(n, c, 4, 4, 4), torch.rand(o, c, 2, 2, 2)
    expected, compiled = call(x, weight), framejit.to_static(call)
    for _ in range(3):
        found = compiled(x, weight)
        assert found[1:] == expected[1:]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, check_stride=True)
    assert framejit.stats()["captures"] > 0
