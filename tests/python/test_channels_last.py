"""Backend "native": convolutions compute channels last, where the program cannot tell.

FRAMEJIT_GENERATED_GRAPHS=2000 runs more random networks.
"""

import os

import hypothesis
import pytest
import torch
from torch import nn

import framejit
from framejit import _C
from support.networks import OUTPUTS, STEPS, assert_does_as, made_network

EXAMPLES = int(os.environ.get("FRAMEJIT_GENERATED_GRAPHS", "40"))


def relaid():
    return _C.kernel_stats()["relaid"]


def check(module, x, graphs):
    """The results are eager's, laid out as eager's; `graphs`: how many compute channels last."""
    module = module.eval()
    call = framejit.to_static(lambda x: module(x), backend="native")
    before = relaid()
    with torch.no_grad():
        expected = module(x)
        for _ in range(2):
            found = call(x)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True, check_stride=True)
    assert relaid() - before == graphs
    return found


def block(channels=16, **options):
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    last = [nn.Conv2d(16, 16, 1) for _ in range(12)]  # enough for what is copied in front of them and behind
    return nn.Sequential(nn.Conv2d(16, channels, 3, **options), norm, nn.ReLU(), nn.Conv2d(channels, 16, 1), *last)


def batch(*sizes):
    torch.manual_seed(0)
    return torch.randn(*(sizes or (2, 16, 9, 7)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "padding": 1},
        {"stride": 2},
        {"padding": 2, "dilation": 2},
        {"padding": (0, 1), "stride": (1, 2)},
        {"groups": 16},
        {"groups": 4, "channels": 8},
    ],
    ids=str,
)
def test_blocks_of_convolutions(options):
    check(block(**options), batch(), graphs=1)


def test_nan_and_infinities_are_eagers():
    x = batch()
    x[0, 0, 0, 0], x[1, 3, 4, 4], x[1, 4, 1, 1] = float("nan"), float("inf"), -float("inf")
    assert check(block(), x, graphs=1).isnan().any()


def test_an_image_of_one_element_has_any_layout():
    check(nn.Sequential(block(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 16, 1)), batch(), graphs=1)


class Written(nn.Module):
    def forward(self, x):
        x[:, :1].neg_()
        return x


def test_what_is_written_through_a_view_is_laid_out_as_before():
    check(nn.Sequential(block(), Written()), batch(), graphs=1)


def test_what_the_program_gives_may_be_channels_last_already():
    found = check(block(), batch().to(memory_format=torch.channels_last), graphs=1)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "module, x",
    [
        (nn.Sequential(nn.Conv2d(16, 16, 3), nn.Flatten()), batch()),  # the copies cost more
        (nn.Sequential(*[layer for _ in range(6) for layer in (nn.Conv2d(16, 16, 1), nn.GroupNorm(2, 16))]), batch()),
        (nn.Conv2d(16, 16, 3).double(), batch().double()),
        (nn.ConvTranspose2d(16, 16, 3), batch()),
        (nn.Conv3d(16, 16, 3), batch(2, 16, 5, 5, 5)),
        (nn.Conv2d(16, 16, 3), batch(1, 16, 9, 7)),  # too small for oneDNN
    ],
    ids=["flattened", "group norms", "f64", "transposed", "3-D", "small"],
)
def test_graphs_that_stay_as_they_are(module, x):
    check(module, x, graphs=0)


def test_a_graph_with_a_history_stays_as_it_is():
    module, x, before = block(), batch(), relaid()
    loss = framejit.to_static(lambda: module(x).square().mean(), backend="native")
    for _ in range(2):
        loss().backward()
    assert relaid() == before and module[0].weight.grad is not None


def test_an_image_that_is_written_through_another_argument_is_read_again():
    module = block().eval()

    def twice(x, y):
        first = module(x)
        y.mul_(2)
        return first + module(x)

    call, before = framejit.to_static(twice, backend="native"), relaid()
    with torch.no_grad():
        for shared in (False, True, False, True):
            results = []
            for run in (twice, call):
                memory = batch().numpy()
                results.append(run(torch.from_numpy(memory), torch.from_numpy(memory if shared else memory.copy())))
            torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert relaid() == before + 1


def test_weights_that_change_are_read_in_each_call():
    module, x = block().eval(), batch()
    call = framejit.to_static(lambda x: module(x), backend="native")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x), module(x), rtol=1e-4, atol=1e-5)
            module[0].weight.data.mul_(1.5)
            module[3].weight.numpy()[0] = 2


relaid_networks = []


@hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@hypothesis.given(STEPS, OUTPUTS)
def check_network(steps, outputs):
    torch.manual_seed(0)
    module = made_network(steps, outputs, convolutions=5)
    call = framejit.to_static(lambda x: module(x), backend="native")
    before = relaid()
    assert_does_as(call, module)
    relaid_networks.append(relaid() - before)


def test_random_networks():
    relaid_networks.clear()
    check_network()
    assert len(relaid_networks) >= EXAMPLES // 2
    assert sum(relaid_networks) >= len(relaid_networks) // 4
