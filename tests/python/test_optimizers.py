"""A whole step of training in a captured function: the optimiser runs eagerly, as one call of its own."""

import copy
import warnings

import pytest
import torch
from torch import nn

import framejit

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "foreach": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
}


def model():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(9)])


def training(net, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_steps_are_eagers_and_are_captured_once(name):
    nets = model(), model()
    steps = [training(net, OPTIMIZERS[name](net.parameters())) for net in nets]
    eager, compiled = steps[0], framejit.to_static(steps[1])
    x = torch.linspace(-1, 1, 32).view(4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a function that recaptures without end says so
        for turn in range(20):
            assert torch.equal(eager(x), compiled(x))
            if turn == 1:
                captures = framejit.stats()["captures"]
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    stats = framejit.stats()
    assert stats["captures"] == captures and stats["fallbacks"] == 0 and stats["graphs"] >= 1
    assert stats["breaks"] <= 4  # zero_grad, step


def test_a_step_inside_of_no_grad_and_a_state_that_is_loaded():
    net, other = model(), model()
    optimizer, twin = (OPTIMIZERS["adam"](each.parameters()) for each in (net, other))
    eager, compiled = training(net, optimizer), framejit.to_static(training(other, twin))
    x = torch.linspace(-1, 1, 32).view(4, 8)
    for _ in range(3):
        eager(x), compiled(x)
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state), twin.load_state_dict(copy.deepcopy(state))
    for group in (*optimizer.param_groups, *twin.param_groups):
        group["lr"] = 0.5
    for _ in range(3):
        assert torch.equal(eager(x), compiled(x))
