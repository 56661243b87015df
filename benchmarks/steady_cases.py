"""What the steady state is measured on: functions that fuse, small programs bound by calls, models, and training steps.

A case builds everything anew from one seed for each contestant, so that no contestant changes another's parameters, and
gives a call without arguments; what the contestant is to compile goes through `convert`.
"""

import functools
from typing import Any, Callable, Dict

import functions
import harness
import torch
from torch import nn

harness.use_models()
import models  # noqa: E402

Convert = Callable[[Any], Any]
Case = Callable[[Convert], Callable[[], Any]]


def chain(x, y):
    for _ in range(3):
        x = torch.relu(x * y + 1) - torch.sigmoid(x) * 0.5
        x = torch.where(x > 1, x * 0.5, torch.tanh(x))
    return x


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def layer_norm(x, weight):
    return torch.nn.functional.layer_norm(x + 1, weight.shape, weight, weight)


def softmax(x, weight):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) * weight


def gelu_mlp(x, weight):
    return torch.nn.functional.gelu(x @ weight + 1) * torch.sigmoid(x @ weight)


def lstm(steps, cell, state):
    """A loop over an LSTM cell, written out: what nn.LSTMCell does in one operator."""
    h, c = state
    weight, bias = cell
    for x in steps:
        i, f, g, o = (torch.cat((x, h), 1) @ weight + bias).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


def adam(parameters, gradients, first, second):
    """A step of Adam without bias correction, written out for each parameter."""
    for p, g, m, v in zip(parameters, gradients, first, second):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def _function(function: Callable, make: Callable[[], tuple]) -> Case:
    def case(convert):
        torch.manual_seed(0)
        return functools.partial(convert(function), *make())

    return case


def _small_mlp(convert: Convert):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
    call, x = convert(model), torch.randn(1, 64)

    def run():
        with torch.no_grad():
            return call(x)

    return run


def _lstm(convert: Convert):
    torch.manual_seed(0)
    steps = list(torch.randn(32, 1, 64))
    cell = torch.randn(128, 256) * 0.1, torch.randn(256)
    return functools.partial(convert(lstm), steps, cell, (torch.zeros(1, 64), torch.zeros(1, 64)))


def _adam(convert: Convert):
    torch.manual_seed(0)
    lists = [[torch.rand(64, 64) for _ in range(24)] for _ in range(4)]
    return functools.partial(convert(adam), *lists)


def _model(name: str, mode: str) -> Case:
    def case(convert):
        built = models.build(name, mode)
        call = convert(built.model)

        def infer():
            with torch.no_grad():
                return call(*built.args, **built.kwargs)

        def train():
            built.model.zero_grad(set_to_none=True)
            models.loss_of(call(*built.args, **built.kwargs)).backward()

        return train if built.training else infer

    return case


def _step(make: Callable[[], tuple]) -> Case:
    """A step of training as one function: old gradients away, forward, loss and backward."""

    def case(convert):
        torch.manual_seed(0)
        model, loss = make()

        def step():
            for parameter in model.parameters():
                parameter.grad = None
            loss(model).backward()

        return convert(step)

    return case


def _adam_training(convert: Convert):
    """A whole step of training as one function, torch.optim.Adam's part of it as well."""
    torch.manual_seed(0)
    model, loss = _mlp_to_train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()

    return convert(step)


def _adam_under_a_schedule(convert: Convert):
    """The same with another learning rate in each step, which a scheduler sets between them."""
    torch.manual_seed(0)
    model, loss = _mlp_to_train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)

    def step():
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()

    call = convert(step)

    def run():
        call()
        scheduler.step()

    return run


def _mlp_to_train():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    x = torch.randn(8, 64)
    return model, lambda called: called(x).square().mean()


def _model_to_train(name: str):
    built = models.build(name, "train")
    return built.model, lambda called: models.loss_of(called(*built.args, **built.kwargs))


def _rows():
    return torch.randn(512, 768), torch.randn(768)


FUSED: Dict[str, Case] = {
    "chain": _function(chain, lambda: (torch.randn(1000, 1000), torch.randn(1000))),
    "rms_norm": _function(rms_norm, _rows),
    "layer_norm": _function(layer_norm, _rows),
    "softmax": _function(softmax, _rows),
    "gelu_mlp": _function(gelu_mlp, lambda: (torch.randn(64, 256), torch.randn(256, 256))),
}
OVERHEAD: Dict[str, Case] = {
    "mlp_batch_1": _small_mlp,
    "lstm_loop": _lstm,
    "chain_small": _function(chain, lambda: (torch.randn(8), torch.randn(8))),
    "adam_step": _adam,
    "five_prints": _function(functions.five_prints, lambda: (torch.randn(8),)),
    "five_branches": _function(functions.five_branches, lambda: (torch.randn(8),)),
}
INFERENCE: Dict[str, Case] = {name: _model(name, "infer") for name in models.MODELS}
TRAINING: Dict[str, Case] = {f"{name}_train": _model(name, "train") for name in models.MODELS}

STEPS: Dict[str, Case] = {
    "mlp_step": _step(_mlp_to_train),
    "mlp_adam_step": _adam_training,
    "mlp_schedule_step": _adam_under_a_schedule,
    "gpt_step": _step(functools.partial(_model_to_train, "gpt")),
    "mobilenet_v3_step": _step(functools.partial(_model_to_train, "mobilenet_v3")),
}

GROUPS: Dict[str, Dict[str, Case]] = {
    "fused": FUSED,
    "overhead": OVERHEAD,
    "inference": INFERENCE,
    "training": TRAINING,
    "steps": STEPS,
}
CASES: Dict[str, Case] = {name: case for group in GROUPS.values() for name, case in group.items()}
