"""to_static(backend="native", freeze=True): what depends on parameters alone is computed once, and noticed when they change."""

import pytest
import torch
from torch import nn

import framejit
from framejit import _C


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def computed():
    return _C.frozen_stats()["computed"]


def packed():
    return _C.frozen_stats()["packed"]


class Frozen:
    """A module compiled with frozen parameters, beside itself in eager."""

    def __init__(self, module):
        self.module = module.eval()
        self.call = framejit.to_static(lambda *args: module(*args), backend="native", freeze=True)

    def check(self, *args, packs=None, rtol=1e-4, atol=1e-5):
        """The results are eager's, in its layout; `packs`: how many weights the call packed."""
        before, captures = packed(), framejit.stats()["captures"]
        with torch.no_grad():
            found = self.call(*args)
            again = self.call(*args)
            expected = self.module(*args)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True, check_stride=True)
        torch.testing.assert_close(again, found, rtol=0, atol=0, equal_nan=True, check_stride=True)
        if packs is not None:
            assert packed() - before == packs
            assert framejit.stats()["captures"] == captures + 1
        return found


class Block(nn.Module):
    """A residual block with an activation of its own."""

    def __init__(self, activation, channels=16, groups=1, bias=False):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=bias, groups=groups)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1, bias=bias)
        self.last = nn.BatchNorm2d(channels, affine=bias)
        self.activation = activation
        for norm in (self.norm, self.last):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        y = self.activation(self.norm(self.first(x)))
        return self.activation(self.last(self.second(y)) + x)


def images(*sizes):
    return torch.randn(*(sizes or (2, 16, 9, 7)))


ACTIVATIONS = [
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.Hardswish(),
    nn.Hardswish(inplace=True),
    nn.SiLU(),
    nn.SiLU(inplace=True),
    nn.Sigmoid(),
    nn.Tanh(),
    nn.GELU(),
    nn.Hardtanh(-0.5, 2.0),
    nn.LeakyReLU(0.1),
    nn.Identity(),
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_convolutions_with_norms_and_activations(activation):
    frozen = Frozen(Block(activation))
    frozen.check(images(), packs=2)
    with torch.no_grad():
        x = images().contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(frozen.call(x), frozen.module(x), rtol=1e-4, atol=1e-5, check_stride=True)


@pytest.mark.parametrize("groups, bias", [(16, False), (4, True), (1, True)])
def test_groups_and_biases(groups, bias):
    Frozen(Block(nn.Hardswish(), groups=groups, bias=bias)).check(images(), packs=2)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_nan_and_infinities_are_eagers(activation):
    x = images()
    x[0, 0, 0, 0], x[1, 3, 4, 4], x[1, 4, 1, 1] = float("nan"), float("inf"), -float("inf")
    found = Frozen(Block(activation)).check(x, packs=2)
    assert found.isnan().any()


@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2},
        {"padding": 2, "dilation": 2},
        {"padding": "same"},
        {"padding": (0, 1), "stride": (1, 2)},
        {"padding": 1, "padding_mode": "reflect"},
    ],
    ids=str,
)
def test_strides_paddings_and_dilations(options):
    Frozen(nn.Conv2d(16, 8, 3, **options)).check(images(), packs=1)


@pytest.mark.parametrize("sizes", [(2, 16, 1, 1), (1, 16, 1, 5), (1, 16, 9, 9), (16, 9, 9)])
def test_sizes_whose_layout_is_ambiguous(sizes):
    Frozen(nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1))).check(images(*sizes), packs=2)


def test_an_empty_batch_and_other_types_are_left_to_the_operators():
    frozen = Frozen(nn.Conv2d(16, 8, 3))
    frozen.check(images(0, 16, 9, 9), packs=0)
    Frozen(nn.Conv2d(16, 8, 3).double()).check(images().double(), packs=0, rtol=1e-12, atol=1e-12)
    Frozen(nn.ConvTranspose2d(16, 8, 3)).check(images(), packs=0)
    Frozen(nn.Conv1d(16, 8, 3)).check(torch.randn(2, 16, 9), packs=0)


class Pyramid(nn.Module):
    """Each operator that gives the same numbers in any layout, and views, which need the old one."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        y = self.convolution(x)
        pooled = torch.cat([nn.functional.max_pool2d(y, 2), nn.functional.avg_pool2d(y, 2)], 1)
        wide = nn.functional.interpolate(pooled, scale_factor=2.0)
        scaled = wide[:, :8] * torch.sigmoid(y.mean((2, 3), keepdim=True)) + y
        padded = nn.functional.pad(scaled, (1, 1, 1, 1))
        small = nn.functional.adaptive_avg_pool2d(padded, 4)
        return self.head(small.flatten(1)), y, scaled.permute(0, 2, 3, 1), padded.sum()


def test_layouts_end_where_they_can_be_seen():
    Frozen(Pyramid()).check(images(2, 3, 8, 8), packs=1)


class Writes(nn.Module):
    """Writes to a convolution's result while views of it, and other names, are read."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x):
        y = self.convolution(x)
        view = y.view(2, -1)
        y.add_(1)
        z = self.convolution(x)
        before = z.view(2, -1) * 2
        z.relu_()
        z.mul_(2)
        w = self.convolution(x)
        same = w.clamp_(-1, 1)
        w[:, 0] = 5
        return view * 2, before, z.view(2, -1) + 1, z, same * 3


def test_writes_and_views_of_results():
    Frozen(Writes()).check(images(2, 4, 6, 6), packs=3)


def test_outputs_that_are_one_tensor_stay_one():
    module = nn.Conv2d(16, 8, 3)

    def outputs(x):
        y = module(x)
        return y, nn.functional.hardswish(y, inplace=True), y.flatten(1)

    call = framejit.to_static(outputs, backend="native", freeze=True)
    before = packed()
    with torch.no_grad():
        y, same, view = call(images())
    assert y is same and view._base is y
    assert packed() == before + 1


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("leading", [(256,), (4, 64)])
def test_products(bias, leading):
    Frozen(nn.Linear(128, 96, bias=bias)).check(torch.randn(*leading, 128), packs=1)


def test_small_products_are_left_to_the_operators():
    Frozen(nn.Linear(32, 8)).check(torch.randn(1, 32), packs=0)


class Scaled(nn.Module):
    """What is computed from parameters alone, large and small, and a buffer."""

    def __init__(self):
        super().__init__()
        self.large = nn.Parameter(torch.randn(128, 128))
        self.small = nn.Parameter(torch.randn(128))
        self.register_buffer("offset", torch.randn(128))

    def forward(self, x):
        return x @ torch.tanh(self.large) * torch.exp(self.small) + self.offset.cos()


def test_what_depends_on_parameters_is_computed_once():
    frozen = Frozen(Scaled())
    before = computed()
    for _ in range(3):
        frozen.check(torch.randn(4, 128))
    assert computed() == before + 1


def _step(module):
    module.large.grad = torch.ones_like(module.large)
    torch.optim.SGD([module.large], lr=0.5).step()


def _replace(module):
    module.large = nn.Parameter(torch.randn(128, 128))


def _load(module):
    module.load_state_dict(Scaled().state_dict())


def _write(module):
    with torch.no_grad():
        module.large[3, 5] += 100


def _data(module):
    module.large.data = torch.randn(128, 128)


def _write_data_of_small(module):
    module.small.data[7] += 1


def _write_numpy_of_small(module):
    module.offset.numpy()[7] += 1


@pytest.mark.parametrize(
    "change", [_step, _replace, _load, _write, _data, _write_data_of_small, _write_numpy_of_small], ids=lambda f: f.__name__
)
def test_changes_are_noticed(change):
    frozen = Frozen(Scaled())
    x = torch.randn(4, 128)
    frozen.check(x)
    before = computed()
    for _ in range(2):
        change(frozen.module)
        frozen.check(x)
    assert computed() >= before + 2


def test_training_between_calls_is_noticed():
    """Batch norm writes its statistics without counting that, and 5,000 channels are no small tensor."""
    module = nn.Sequential(nn.Conv2d(1, 5000, 1), nn.BatchNorm2d(5000))
    frozen = Frozen(module)
    x = torch.randn(2, 1, 3, 3)
    frozen.check(x)
    for _ in range(2):
        module.train()
        with torch.no_grad():
            module(x + 3)
        module.eval()
        frozen.check(x)


def test_gradients_go_without_freezing():
    module = nn.Linear(128, 96)
    call = framejit.to_static(lambda x: module(x), backend="native", freeze=True)
    before = packed()
    x = torch.randn(64, 128)
    call(x).sum().backward()
    expected = torch.autograd.grad(module(x).sum(), module.weight)[0]
    torch.testing.assert_close(module.weight.grad, expected)
    assert packed() == before


def test_arguments_are_not_frozen():
    def product(x, weight):
        return x @ weight

    call = framejit.to_static(product, backend="native", freeze=True)
    x, weight = torch.randn(64, 128), torch.randn(128, 128)
    before = _C.frozen_stats()
    call(x, weight)
    weight.data.mul_(2)
    torch.testing.assert_close(call(x, weight), product(x, weight))
    assert _C.frozen_stats() == before


class Counts(nn.Module):
    """Writes a buffer, which therefore is not frozen."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        self.count += 1
        return x * torch.exp(self.count) + torch.exp(self.weight)


def test_written_buffers_are_not_frozen():
    module = Counts()
    call = framejit.to_static(module, backend="native", freeze=True)
    with torch.no_grad():
        for i in range(1, 4):
            expected = torch.ones(4) * torch.exp(torch.full((4,), float(i))) + torch.exp(module.weight)
            torch.testing.assert_close(call(torch.ones(4)), expected)


def test_an_argument_that_shares_memory_with_a_parameter():
    """The write to the argument has to be seen by what reads the parameter after it."""
    module = Scaled().eval()

    def call(view):
        view.mul_(2)
        return torch.tanh(module.large).sum()

    compiled = framejit.to_static(call, backend="native", freeze=True)
    with torch.no_grad():
        compiled(torch.ones(3))
        before = module.large.clone()
        found = compiled(module.large.view(-1)[:3])
        torch.testing.assert_close(found, torch.tanh(module.large).sum())
        torch.testing.assert_close(module.large.view(-1)[:3], 2 * before.view(-1)[:3], rtol=0, atol=0)


def test_a_parameter_that_is_returned_is_itself():
    module = Scaled()
    call = framejit.to_static(lambda: (module.large.t(), module.small), backend="native", freeze=True)
    with torch.no_grad():
        view, small = call()
    assert view._base is module.large and small is module.small


def test_threads_share_what_was_computed():
    import concurrent.futures

    frozen = Frozen(nn.Sequential(nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU()))
    x = images()
    with torch.no_grad():
        expected = frozen.module(x)

    def run(_):
        with torch.no_grad():
            return [frozen.call(x) for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for results in pool.map(run, range(4)):
            for found in results:
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_autocast_converts_weights_once():
    frozen = Frozen(nn.Linear(64, 64))
    x = torch.randn(8, 64)
    before = computed()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = frozen.module(x)
        for _ in range(3):
            assert torch.equal(frozen.call(x), expected)
    assert computed() == before + 1


@pytest.mark.parametrize("backend", ["aten", print])
def test_only_native_freezes(backend):
    with pytest.raises(ValueError, match="freeze=True needs one of the back ends"):
        framejit.to_static(lambda x: x, backend=backend, freeze=True)
