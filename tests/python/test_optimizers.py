"""A whole step of training in a captured function: as one graph where the optimiser reads no number out of a tensor; else
it runs eagerly, as one call of its own."""

import copy
import warnings

import pytest
import torch
from torch import nn

import framejit
from support import counts

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
    # The optimiser's step, once without gradients from before and once with them.
    assert stats["breaks"] <= 2, stats["break_reasons"]


IN_A_GRAPH = {
    "plain": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "weight decay": lambda parameters: torch.optim.SGD(parameters, lr=0.05, weight_decay=0.1),
    "maximize": lambda parameters: torch.optim.SGD(parameters, lr=0.05, maximize=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "nesterov": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5),
    "sgd for each": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, foreach=True),
    "adam for each": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    "adamw for each": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "rmsprop for each": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, momentum=0.5, foreach=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adam with decay": lambda parameters: torch.optim.Adam(parameters, lr=0.01, weight_decay=0.1),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, lr=0.01),
    "adamax": lambda parameters: torch.optim.Adamax(parameters, lr=0.01),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
}
SETTLING = 4  # steps: without gradients and state, without one of them, with both


@pytest.mark.parametrize("name", sorted(IN_A_GRAPH))
@pytest.mark.parametrize("backend", ["aten", "native"])
def test_a_step_is_one_graph(name, backend):
    # Kernels round otherwise, and a first step divides a gradient by its own size.
    dtype, same = (torch.float32, torch.equal) if backend == "aten" else (torch.float64, torch.allclose)
    nets = model().to(dtype), model().to(dtype)
    steps = [training(net, IN_A_GRAPH[name](net.parameters())) for net in nets]
    eager, compiled = steps[0], framejit.to_static(steps[1], backend=backend)
    x = torch.linspace(-1, 1, 32, dtype=dtype).view(4, 8)
    for turn in range(8):
        with counts.counting() as counted:
            got = compiled(x)
        assert same(eager(x), got)
        assert not counted.fallbacks
        if turn >= SETTLING:
            assert (counted.breaks, counted.captures, counted.hits) == (0, 0, 1), counted.break_reasons
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert same(one, other) and same(one.grad, other.grad)
    assert any("add_" in str(graph) and "mm" in str(graph) for graph in compiled.graphs)


def settled(make, steps=10):
    """The counts of the last of some steps, which are all eager's. `make(net, optimizer)`: the step."""
    nets = model(), model()
    eager, compiled = (make(net, torch.optim.Adam(net.parameters(), lr=0.01)) for net in nets)
    compiled = framejit.to_static(compiled, backend="aten")
    x = torch.linspace(-1, 1, 32).view(4, 8)
    for _ in range(steps):
        with counts.counting() as counted:
            got = compiled(x)
        assert torch.equal(eager(x), got)
        assert not counted.fallbacks
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    return counted


def clipped(net, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optimizer.step()
        return loss

    return step


def scheduled(net, optimizer):
    torch.optim.lr_scheduler.StepLR(optimizer, 3)  # puts a function with a weak reference in front of step()
    return training(net, optimizer)


def averaged(net, optimizer):
    average = [parameter.detach().clone() for parameter in net.parameters()]
    trained = training(net, optimizer)

    def step(x):
        loss = trained(x)
        with torch.no_grad():
            for mean, parameter in zip(average, net.parameters()):
                mean.mul_(0.9).add_(parameter, alpha=0.1)
        return loss + sum(mean.sum() for mean in average)

    return step


def logged(net, optimizer):
    trained, history = training(net, optimizer), []

    def step(x):
        loss = trained(x)
        history.append(loss.item())
        found = {"loss": loss.item(), "norms": [parameter.grad.norm().item() for parameter in net.parameters()]}
        return loss * found["norms"][0] + found["loss"]

    return step


@pytest.mark.parametrize("make", [clipped, scheduled, averaged, logged], ids=lambda make: make.__name__)
def test_what_surrounds_a_step_is_in_its_graph(make):
    counted = settled(make)
    assert (counted.breaks, counted.captures, counted.hits) == (0, 0, 1), counted.break_reasons


def test_a_step_is_one_graph_beside_torch_compile():
    import torch._dynamo  # noqa: F401, which marks functions of optimisers

    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    test_a_step_is_one_graph("momentum", "aten")


@pytest.mark.parametrize("name", ["momentum", "rmsprop"])
def test_state_that_is_loaded_and_parameters_that_are_replaced(name):
    nets = model(), model()
    optimizers = [IN_A_GRAPH[name](net.parameters()) for net in nets]
    eager, compiled = training(nets[0], optimizers[0]), framejit.to_static(training(nets[1], optimizers[1]), backend="aten")
    x = torch.linspace(-1, 1, 32).view(4, 8)

    def steps(count):
        for _ in range(count):
            assert torch.equal(eager(x), compiled(x))

    steps(5)
    for optimizer in optimizers:
        state = copy.deepcopy(optimizer.state_dict())
        for values in state["state"].values():
            for value in values.values():
                if isinstance(value, torch.Tensor):
                    value.mul_(2)
        optimizer.load_state_dict(state)
    steps(3)
    for net, optimizer in zip(nets, optimizers):
        old = net[0][0].weight
        net[0][0].weight = nn.Parameter(old.detach() * 0.5)
        group = optimizer.param_groups[0]["params"]
        group[[parameter is old for parameter in group].index(True)] = net[0][0].weight
        optimizer.state.pop(old)
    with counts.counting() as counted:
        steps(5)
    assert counted.hits and not counted.fallbacks
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert torch.equal(one, other)


def test_a_function_that_the_program_keeps_from_torch_compile_is_in_the_graph():
    scale = 3.0

    @torch._dynamo.disable
    def kept(x, by=2):
        return x * by + scale

    compiled = framejit.to_static(lambda x: kept(x.sin(), by=4) + 1)
    x = torch.linspace(-1, 1, 8)
    with counts.counting() as counted:
        assert torch.equal(compiled(x), kept(x.sin(), by=4) + 1)
        assert torch.equal(compiled(x), kept(x.sin(), by=4) + 1)
    assert (counted.captures, counted.breaks, counted.hits) == (1, 0, 1)


def test_a_learning_rate_that_a_scheduler_changes():
    nets = model(), model()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.5) for net in nets]
    eager, compiled = training(nets[0], optimizers[0]), framejit.to_static(training(nets[1], optimizers[1]))
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97) for optimizer in optimizers]
    x = torch.linspace(-1, 1, 32).view(4, 8)
    for turn in range(24):
        with counts.counting() as counted:
            got = compiled(x)
        assert torch.allclose(eager(x), got), turn
        assert not counted.fallbacks
        for schedule in schedules:
            schedule.step()


def test_gradients_are_set_to_zero_and_not_to_none():
    nets = model(), model()

    def training_with_zeros(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

        def step(x):
            optimizer.zero_grad(set_to_none=False)
            net(x).square().mean().backward()
            optimizer.step()

        return step

    eager, compiled = training_with_zeros(nets[0]), framejit.to_static(training_with_zeros(nets[1]), backend="aten")
    x = torch.linspace(-1, 1, 32).view(4, 8)
    for _ in range(4):
        eager(x), compiled(x)
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    assert compiled.graphs and compiled.cache_info().breaks == 0


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
