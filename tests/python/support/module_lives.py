"""A small model, and what programs do to models between two calls: one row of CHANGES each, `(net, world, n)`."""

import copy
import types

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from .source import define

SOURCE = """
import torch
from torch import nn

BIAS = 0.25
ORDER = ["first", "second"]


def shift(x, by):
    return x + by * BIAS


class Block(nn.Module):
    factor = 2.0

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.act = nn.Tanh()
        self.scale = 0.5
        self.counts, self.calls = False, 0
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        if self.counts:
            self.calls += 1
        for name in ORDER:
            x = self.act(getattr(self, name)(x))
        if self.norm is not None:
            x = self.norm(x)
        if self.training:
            self.steps += 1
        return shift(x * self.scale, self.factor)


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))
        self.options = {"residual": True, "clip": None}
        self.last = None

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            y = block(x)
            x = x + y if self.options["residual"] and index else y
        if self.options["clip"] is not None:
            x = x.clamp(max=self.options["clip"])
        self.last = len(self.blocks)
        return self.head(x)
"""
WIDTH = 4


class World:
    """A model of its own classes and module, and the function that runs it."""

    def __init__(self, wrap, by_argument):
        self.names = define(SOURCE)
        self.wrap, self.by_argument = wrap, by_argument
        self.hooks, self.heard = [], []
        torch.manual_seed(3)
        self.set_net(self.names["Net"](WIDTH, 2))
        self.other = self.names["Block"](WIDTH)
        self.call = wrap(lambda net, x: net(x)) if by_argument else None

    def set_net(self, net):
        self.net = net
        self.optimizer = None
        self.whole = None if self.by_argument else self.wrap(net)

    def run(self, x):
        return self.call(self.net, x) if self.by_argument else self.whole(x)


def block(net, n):
    return net.blocks[n % len(net.blocks)]


def linear(net, n):
    return (block(net, n).first, block(net, n).second)[n // 2 % 2]


def parameter(net, n):
    parameters = list(net.parameters())
    return parameters[n % len(parameters)]


def with_numbers(like, n):
    return torch.linspace(-1, 1, like.numel()).reshape(like.shape).to(like.dtype) * (1 + n % 3)


def set_data(net, world, n):
    found = parameter(net, n)
    found.data = with_numbers(found, n)


def set_data_in_another_layout(net, world, n):
    weight = linear(net, n).weight
    weight.data = weight.data.t().contiguous().t()


def write_in_place(net, world, n):
    with torch.no_grad():
        parameter(net, n).mul_(1.5)


def new_parameter(net, world, n):
    linear(net, n).weight = nn.Parameter(with_numbers(linear(net, n).weight, n), requires_grad=n % 4 != 0)


def tie(net, world, n):
    net.blocks[0].first.weight = net.blocks[-1].second.weight


def plain_tensor_for_a_parameter(net, world, n):
    found = linear(net, n)
    weight = found.weight
    if "weight" in found._parameters:
        del found.weight
        found.weight = weight.detach() * 2


def add_hook(net, world, n):
    found = block(net, n)

    def before(module, arguments):
        world.heard.append("before")
        return tuple(argument * 2 for argument in arguments)

    def after(module, arguments, result):
        return result - 1

    def backward(module, into, out):
        world.heard.append(("backward", len(into)))

    kinds = [
        lambda: found.register_forward_pre_hook(before),
        lambda: found.register_forward_hook(after),
        lambda: found.act.register_forward_hook(after) if isinstance(found.act, nn.Module) else None,
        lambda: found.register_full_backward_hook(backward),
        lambda: nn.modules.module.register_module_forward_hook(after),
    ]
    world.hooks.append(kinds[n % len(kinds)]())


def remove_hooks(net, world, n):
    while world.hooks:
        hook = world.hooks.pop()
        if hook is not None:
            hook.remove()


def step(net, world, n):
    if world.optimizer is None:
        world.optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9 * (n % 2))
    world.optimizer.step()


def load_state(net, world, n):
    state = {key: value * 0.5 if value.is_floating_point() else value for key, value in net.state_dict().items()}
    net.load_state_dict(state, strict=False, **({"assign": True} if n % 2 else {}))


def patch_class(net, world, n):
    kind = world.names["Block"]
    original = kind.__dict__.get("original") or kind.forward
    kind.original = original
    kind.forward = (lambda self, x: original(self, x) * 3) if n % 2 else original


def patch_instance(net, world, n):
    found = block(net, n)
    if "forward" in found.__dict__:
        del found.forward
    else:
        found.forward = types.MethodType(lambda self, x: type(self).forward(self, x) - 2, found)


def toggle_weight_norm(net, world, n):
    found = linear(net, n)
    if parametrize.is_parametrized(found):
        parametrize.remove_parametrizations(found, "weight", leave_parametrized=n % 2 == 0)
    elif "weight" in found._parameters:
        parametrizations.weight_norm(found)


def prune_weight(net, world, n):
    found = linear(net, n)
    if prune.is_pruned(found):
        if "weight_orig" in found._parameters:
            prune.remove(found, "weight")
    elif "weight" in found._parameters and not parametrize.is_parametrized(found):
        prune.l1_unstructured(found, "weight", amount=0.3)


def freeze(net, world, n):
    for index, found in enumerate(net.parameters()):
        if (index + n) % 3 == 0 and found.is_leaf:
            found.requires_grad_(not found.requires_grad)


def set_attribute(name, values):
    return lambda net, world, n: setattr(block(net, n), name, values[n % len(values)]())


def set_global(name, values):
    return lambda net, world, n: world.names.__setitem__(name, values[n % len(values)]())


CHANGES = {
    "nothing": lambda net, world, n: None,
    "train": lambda net, world, n: net.train(),
    "eval": lambda net, world, n: net.eval(),
    "one block in eval": lambda net, world, n: block(net, n).eval(),
    "to": lambda net, world, n: net.to([torch.float64, torch.float32, torch.bfloat16][n % 3]),
    "freeze": freeze,
    "scale": set_attribute("scale", [lambda: 0.5, lambda: 2, lambda: True, lambda: torch.ones(()), lambda: 0.0, lambda: -0.0]),
    "act": set_attribute("act", [nn.ReLU, lambda: torch.sin, nn.Identity, nn.Tanh, lambda: torch.nn.functional.silu]),
    "norm": set_attribute("norm", [lambda: None, lambda: nn.LayerNorm(WIDTH), lambda: nn.BatchNorm1d(WIDTH)]),
    "counts": set_attribute("counts", [lambda: True, lambda: False]),
    "factor of an instance": set_attribute("factor", [lambda: 1.0, lambda: 3]),
    "no such attribute": lambda net, world, n: block(net, n).__dict__.pop("scale", None),
    "steps": set_attribute("steps", [lambda: torch.ones(()), lambda: None, lambda: torch.zeros(1), lambda: torch.zeros(())]),
    "write steps": lambda net, world, n: block(net, n).steps is not None and block(net, n).steps.fill_(n),
    "factor of the class": lambda net, world, n: setattr(world.names["Block"], "factor", float(n % 3)),
    "bias": set_global("BIAS", [lambda: 0.25, lambda: 1, lambda: torch.ones(WIDTH)]),
    "order": lambda net, world, n: world.names["ORDER"].reverse(),
    "longer order": lambda net, world, n: world.names["ORDER"].append("first") if n % 2 else world.names["ORDER"].pop(),
    "shift": set_global("shift", [lambda: lambda x, by: x - by, lambda: lambda x, by: x]),
    "residual": lambda net, world, n: net.options.update(residual=n % 2 == 0),
    "clip": lambda net, world, n: net.options.update(clip=[None, 0.5, 1][n % 3]),
    "append a block": lambda net, world, n: net.blocks.append(world.names["Block"](WIDTH)),
    "the same block again": lambda net, world, n: net.blocks.append(net.blocks[0]),
    "drop a block": lambda net, world, n: net.blocks.__delitem__(n % len(net.blocks)) if len(net.blocks) > 1 else None,
    "replace a block": lambda net, world, n: net.blocks.__setitem__(n % len(net.blocks), world.other),
    "bias of a layer": lambda net, world, n: setattr(linear(net, n), "bias", None),
    "data": set_data,
    "data in another layout": set_data_in_another_layout,
    "write in place": write_in_place,
    "new parameter": new_parameter,
    "tie": tie,
    "plain tensor for a parameter": plain_tensor_for_a_parameter,
    "add a hook": add_hook,
    "remove hooks": remove_hooks,
    "step": step,
    "zero_grad": lambda net, world, n: net.zero_grad(set_to_none=n % 2 == 0),
    "load_state_dict": load_state,
    "patch the class": patch_class,
    "patch an instance": patch_instance,
    "weight_norm": toggle_weight_norm,
    "prune": prune_weight,
    "deepcopy": lambda net, world, n: world.set_net(copy.deepcopy(net)),
}
