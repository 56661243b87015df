"""Back end native: batch norm with given statistics and softmax are parts of kernels."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from support.native import kernels_asked_for, needs_kernels

pytestmark = needs_kernels


def norm(channels, dtype=torch.float32, **options):
    torch.manual_seed(0)
    made = (nn.BatchNorm2d if options.pop("images", True) else nn.BatchNorm1d)(channels, **options).to(dtype)
    for parameter in made.parameters():
        nn.init.uniform_(parameter, 0.5, 2)
    made.running_mean.uniform_(-1, 1)
    made.running_var.uniform_(0.25, 2)
    return made


def check(model, x, kernels):
    before = kernels_asked_for()

    def f(x):
        return torch.relu(model(x)) + x

    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        with torch.no_grad():
            expected, found = f(x), compiled(x)
        assert found.stride() == expected.stride()
        torch.testing.assert_close(found, expected)
    assert kernels_asked_for() - before == kernels
    assert framejit.stats()["hits"] == 1


IMAGES = torch.arange(2 * 5 * 3 * 4, dtype=torch.float32).view(2, 5, 3, 4).sin()


@pytest.mark.parametrize("x", [IMAGES, IMAGES.to(memory_format=torch.channels_last), IMAGES[:1], IMAGES[:, :, :1, :1]])
@pytest.mark.parametrize("affine", [True, False])
def test_images(x, affine):
    check(norm(5, affine=affine).eval(), x.clone(), 1)


@pytest.mark.parametrize("x", [IMAGES[0, :, :, 0].t(), IMAGES[..., 0]])
def test_lines_and_rows(x):
    check(norm(5, images=False).eval(), x.contiguous(), 1)


def test_f64_and_more_channels_than_a_vector_is_wide():
    check(norm(37, torch.float64).eval(), torch.randn(2, 37, 5, 5, dtype=torch.float64), 1)


def test_gradients_with_given_statistics():
    model = norm(5).eval()
    gradients = []
    for fn in (model, framejit.to_static(model, backend="native")):
        model.zero_grad()
        x = IMAGES.clone().requires_grad_()
        torch.sigmoid(torch.relu(fn(x)) * 2).sum().backward()
        gradients.append([x.grad, model.weight.grad, model.bias.grad])
    for one, other in zip(*gradients):
        torch.testing.assert_close(other, one)


def test_a_vector_that_the_program_makes_is_left_to_the_operator():
    model = norm(5, images=False).eval()

    def f(x, v):
        variance = v * v + 1
        y = functional.batch_norm(x, model.running_mean, variance, eps=1e-5)
        return torch.relu(y) * v, variance

    x, v = IMAGES[0, :, :, 0].t()[:1].contiguous(), torch.arange(5.0)
    compiled = framejit.to_static(f, backend="native")
    for one, other in zip(f(x, v), compiled(x, v)):
        torch.testing.assert_close(other, one)


# Batch norm with statistics of the batch


def train(model, fn, x, weight):
    """A step without an optimizer: result, gradients and buffers, with the versions of these."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = fn(x)
    (y * weight).sum().backward()
    buffers = list(model.buffers())
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    return [y.detach(), x.grad, *gradients, *[b.clone() for b in buffers]], [b._version for b in buffers]


def check_training(model, x, *, forward=1, backward=1, around=lambda model, x: model(x), bound=2e-6):
    """Steps are eager's, with as many kernels."""
    torch.manual_seed(1)
    weight = torch.randn(around(copy.deepcopy(model), x).shape).to(x.dtype)
    model, other = copy.deepcopy(model), copy.deepcopy(model)
    before = kernels_asked_for()
    compiled = framejit.to_static(lambda x: around(model, x), backend="native")
    for _ in range(3):
        expected, versions = train(other, lambda x: around(other, x), x, weight)
        found, found_versions = train(model, compiled, x, weight)
        assert found_versions == versions
        for one, other_one in zip(expected, found):
            assert (other_one.dtype, other_one.shape, other_one.stride()) == (one.dtype, one.shape, one.stride())
            rtol = 1e-12 if x.dtype == torch.float64 else bound
            scale = one[one.isfinite()].abs().max().item() if one.isfinite().any() and one.dim() else 1
            torch.testing.assert_close(other_one, one, rtol=rtol, atol=rtol * scale, equal_nan=True)
    assert kernels_asked_for() - before == forward + backward
    assert framejit.stats()["captures"] == 1 and framejit.stats()["hits"] == 2


BATCH = torch.arange(3 * 5 * 4 * 6, dtype=torch.float64).view(3, 5, 4, 6).mul(1.7).sin() * 3 + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [
    {}, {"affine": False}, {"track_running_stats": False}, {"momentum": 0.9}, {"momentum": 1.0}, {"eps": 0.5},
], ids=str)  # fmt: skip
def test_training(dtype, options):
    if options.get("track_running_stats", True):
        model = norm(5, dtype, **options)
    else:
        model = nn.BatchNorm2d(5, **options).to(dtype)
    check_training(model.train(), BATCH.to(dtype))


@pytest.mark.parametrize("shape", [(3, 5, 2), (1, 5, 3, 3), (2, 5, 1, 7), (2, 5, 17), (1, 5, 300), (2, 5, 33, 1), (1, 1, 2, 1)], ids=str)
def test_training_in_other_shapes(shape):
    torch.manual_seed(0)
    model = norm(shape[1], torch.float64, images=len(shape) == 4)
    check_training(model.train(), torch.randn(shape, dtype=torch.float64) + 1)


def test_training_in_three_dimensions():
    model = nn.BatchNorm3d(4).double()
    check_training(model.train(), torch.randn(2, 4, 3, 2, 5, dtype=torch.float64))


def test_a_moving_average_of_all_batches():
    model, other = (nn.BatchNorm2d(5, momentum=None) for _ in range(2))
    compiled = framejit.to_static(lambda x: model(x), backend="native")
    for _ in range(3):
        torch.testing.assert_close(compiled(BATCH.float()), other(BATCH.float()))
        torch.testing.assert_close(model.running_var, other.running_var)


ACTIVATIONS = {
    "relu": nn.ReLU(), "relu_": nn.ReLU(inplace=True), "hardtanh_": nn.Hardtanh(0, 6, inplace=True), "silu": nn.SiLU(),
    "silu_": nn.SiLU(inplace=True), "sigmoid": nn.Sigmoid(), "hardsigmoid": nn.Hardsigmoid(),
}  # fmt: skip


@pytest.mark.parametrize("which", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_with_what_follows(which, dtype):
    """The norm with the activation is one kernel, the activation's gradient with the norm's another."""
    model = nn.Sequential(norm(5, dtype), ACTIVATIONS[which])
    check_training(model.train(), BATCH.to(dtype))


def test_a_block_that_adds():
    model = nn.ModuleList([norm(5, torch.float64), norm(5, torch.float64)]).train()

    def block(model, x):
        return torch.relu_(model[0](x * 2).add_(model[1](x.sin())))

    check_training(model, BATCH, around=block)


def test_two_norms_in_one_kernel():
    model = nn.Sequential(norm(5, torch.float64), nn.ReLU(), norm(5, torch.float64)).train()
    check_training(model, BATCH)


def test_a_norm_that_is_called_twice():
    """The second call reads statistics that the first has written: no kernel has both. One counts the batches."""
    check_training(norm(5, torch.float64).train(), BATCH, forward=3, around=lambda model, x: model(model(x) + 1))


def test_statistics_are_read_and_written_in_the_programs_order():
    def around(model, x):
        before = model.running_mean.sum() + model.running_var.sum()
        y = model(x)
        after = model.running_mean + 1
        model.running_var.mul_(0.5)
        z = model(x)
        return torch.relu(y * before + after.view(-1, 1, 1)) + z * model.running_var.view(-1, 1, 1)

    model, other, x = norm(5, torch.float64).train(), norm(5, torch.float64).train(), BATCH
    compiled = framejit.to_static(lambda x: around(model, x), backend="native")
    before = kernels_asked_for()
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), around(other, x), rtol=1e-12, atol=1e-12)
        for one, another in zip(other.buffers(), model.buffers()):
            torch.testing.assert_close(another, one, rtol=1e-12, atol=1e-12)
            assert another._version == one._version
    assert kernels_asked_for() - before >= 2
    assert framejit.stats()["captures"] == 1


def test_an_operand_that_lies_over_the_statistics_sees_the_writes():
    model, other = (norm(5, torch.float64).train() for _ in range(2))
    compiled = framejit.to_static(lambda x, y: torch.relu(model(x)) * y, backend="native")
    for overlap in (False, True, False):
        results = []
        for fn, of in ((compiled, model), (lambda x, y: torch.relu(other(x)) * y, other)):
            y = of.running_mean if overlap else torch.ones(5, dtype=torch.float64)
            results += [fn(BATCH[..., :5].contiguous(), y), of.running_mean.clone()]
        torch.testing.assert_close(results[0], results[2], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(results[1], results[3], rtol=1e-12, atol=1e-12)


def test_statistics_that_lie_apart_in_memory():
    models = [norm(5, torch.float64).train() for _ in range(2)]
    for model in models:
        both = torch.arange(20.0, dtype=torch.float64).view(5, 4)
        model.running_mean, model.running_var = both[:, 0].clone(), both[:, 2].clone()
    compiled = framejit.to_static(lambda x: torch.relu(models[0](x)), backend="native")
    for _ in range(2):
        torch.testing.assert_close(compiled(BATCH), torch.relu(models[1](BATCH)))
        torch.testing.assert_close(models[0].running_var, models[1].running_var)


def test_what_takes_no_gradient_is_not_computed():
    model = norm(5, torch.float64).train()
    model.weight.requires_grad_(False)
    check_training(model, BATCH, around=lambda model, x: torch.relu(model(x)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_channel_without_numbers_is_its_own(value):
    x = BATCH.float()
    x[1, 2, 3, 4] = value
    check_training(nn.Sequential(norm(5), nn.ReLU()).train(), x)


def test_a_constant_channel():
    x = BATCH.float()
    x[:, 1], x[:, 3] = 1000.0, 0.0
    model, other = (nn.BatchNorm2d(5) for _ in range(2))
    before = kernels_asked_for()
    found = framejit.to_static(lambda x: torch.relu(model(x)), backend="native")(x)
    torch.testing.assert_close(found, torch.relu(other(x)), atol=5e-3, rtol=0)  # eager's is up to 0.003 beside zero
    assert (found[:, 1] == 0).all() and (found[:, 3] == 0).all()
    torch.testing.assert_close(model.running_var, other.running_var)
    assert kernels_asked_for() == before + 1


def test_long_channels_far_from_zero_lose_nothing():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 150, 150) * 0.5 + 300
    model, exact = nn.BatchNorm2d(3), nn.BatchNorm2d(3).double()
    eager = copy.deepcopy(model)
    found = framejit.to_static(lambda x: model(x), backend="native")(x)
    expected, right = eager(x), exact(x.double())
    assert (found - right).abs().max() <= (expected - right).abs().max()
    torch.testing.assert_close(model.running_var, eager.running_var, rtol=1e-6, atol=0)


@pytest.mark.parametrize("make", [
    lambda: BATCH.float().to(memory_format=torch.channels_last), lambda: BATCH.bfloat16(), lambda: BATCH[:, :, :1, :1].float(),
    lambda: BATCH.float().transpose(2, 3),
], ids=["channels last", "half", "columns", "transposed"])  # fmt: skip
def test_what_kernels_do_not_take_is_left_to_the_operator(make):
    x = make()
    model, other = (norm(5).to(x.dtype).train() for _ in range(2))
    compiled = framejit.to_static(lambda x: model(x), backend="native")
    before = kernels_asked_for()
    for _ in range(2):
        found, expected = compiled(x), other(x)
        assert torch.equal(found, expected) and found.stride() == expected.stride()
        assert torch.equal(model.running_var, other.running_var)
    assert kernels_asked_for() == before


def test_one_value_for_each_channel_raises_as_in_eager():
    model = norm(5).train()
    compiled = framejit.to_static(lambda x: model(x), backend="native")
    compiled(BATCH.float())
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        compiled(BATCH[:1, :, :1, :1].float())


def test_an_empty_batch():
    outcomes = []
    for fn in (lambda x, m: m(x), framejit.to_static(lambda x, m: m(x), backend="native")):
        model = norm(5).train()
        try:
            outcomes.append((fn(torch.zeros(0, 5, 4, 4), model).shape, model.num_batches_tracked.item()))
        except (RuntimeError, ValueError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_statistics_written_before_a_failure_are_taken_back():
    model, other = (norm(5, torch.float64).train() for _ in range(2))

    def around(model, x, index):
        try:
            y = torch.relu(model(x))
            return y[index] * 2 + 1
        except IndexError:
            return x

    compiled = framejit.to_static(lambda x, index: around(model, x, index), backend="native")
    before = kernels_asked_for()
    for index in (1, 9, 0):
        at = torch.tensor([index])
        torch.testing.assert_close(compiled(BATCH, at), around(other, BATCH, at), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.running_mean, other.running_mean, rtol=1e-12, atol=1e-12)
        assert model.num_batches_tracked == other.num_batches_tracked
    assert kernels_asked_for() > before


def test_from_training_to_evaluation():
    model, other = (nn.Sequential(norm(5), nn.ReLU()) for _ in range(2))
    compiled = framejit.to_static(lambda x: model(x), backend="native")
    for mode in (True, False, True, False):
        model.train(mode), other.train(mode)
        torch.testing.assert_close(compiled(BATCH.float()), other(BATCH.float()))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("lay", [
    lambda x: x.transpose(2, 3), lambda x: x[:, :, ::2], lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    lambda x: x.to(memory_format=torch.channels_last)[:, :, ::2], lambda x: x[:, :, 0, 0], lambda x: x[:, :1].expand(x.shape),
], ids=["transposed", "slices", "swapped", "channels last", "columns", "expanded"])  # fmt: skip
def test_results_of_inputs_that_are_not_dense_lie_as_in_eager(lay, training):
    """Whoever reads them has to know: what follows is a kernel."""
    x = lay(BATCH.float())
    model, other = (norm(5, images=x.dim() == 4).train(training) for _ in range(2))

    def around(model, x):
        y = model(x)
        return torch.relu(y * 2 + 1) * 0.5, y

    compiled = framejit.to_static(lambda x: around(model, x), backend="native")
    before = kernels_asked_for()
    for _ in range(2):
        results = [fn(x.detach().requires_grad_()) for fn in (compiled, lambda x: around(other, x))]
        for found, expected in zip(*results):
            assert found.stride() == expected.stride()
            torch.testing.assert_close(found, expected)
    assert kernels_asked_for() > before


# Softmax


@pytest.mark.parametrize("softmax", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_rows_with_its_gradient(softmax, dtype):
    mask = torch.zeros(7, dtype=dtype)
    mask[5:] = -float("inf")

    def f(x):
        return softmax(x * 0.5 + mask, -1) * 2

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        results = []
        for fn in (f, compiled):
            x = torch.arange(21, dtype=dtype).view(3, 7).sin().mul(50).requires_grad_()
            y = fn(x)
            y[:, :5].square().sum().backward()
            results.append((y.detach(), x.grad))
        for one, other in zip(*results):
            torch.testing.assert_close(other, one)
    assert kernels_asked_for() - before == 2  # forward and backward
    assert framejit.stats()["hits"] == 1


def test_rows_of_nothing_but_infinities_are_nan():
    compiled = framejit.to_static(lambda x: torch.softmax(x + 1, 1), backend="native")
    x = torch.full((2, 3), -float("inf"))
    x[1, 1] = 0
    torch.testing.assert_close(compiled(x), torch.softmax(x + 1, 1), equal_nan=True)


def test_softmax_of_another_dimension_or_type_is_left_to_the_operator():
    before = kernels_asked_for()
    for x, dim in ((torch.randn(3, 4), 0), (torch.randn(3, 4).bfloat16(), 1), (torch.randn(3, 1), 1)):
        compiled = framejit.to_static(lambda x, dim: torch.softmax(torch.mm(x, x.t()), dim), backend="native")
        torch.testing.assert_close(compiled(x, dim), torch.softmax(torch.mm(x, x.t()), dim))
    assert kernels_asked_for() == before
