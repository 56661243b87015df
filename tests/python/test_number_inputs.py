"""Floats that the program reads from outside and that are another in each call: after some captures they are inputs of
the graph, bit-equal with eager's."""

import math

import pytest
import torch

import framejit
from support import counts

CALLS = 12
SOME = 3  # captures until a float counts as one that changes


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def rate(call):
    return 0.1 * 0.93**call


def same(a, b):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a.nan_to_num(7), b.nan_to_num(7))
    elif isinstance(a, (tuple, list)):
        assert type(a) is type(b) and len(a) == len(b)
        for one, other in zip(a, b):
            same(one, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    else:
        assert type(a) is type(b)
        assert a == b or (a != a and b != b)
        if isinstance(a, float):
            assert math.copysign(1, a) == math.copysign(1, b)


# ---- operators and Scalar arguments ----

USES = {
    "multiplied": lambda x, r: x * r,
    "on the left": lambda x, r: r * x,
    "subtracted from": lambda x, r: r - x,
    "divides": lambda x, r: x / r,
    "alpha": lambda x, r: torch.add(x, x, alpha=r),
    "in place": lambda x, r: (x + 1).mul_(r),
    "in place with alpha": lambda x, r: (x + 1).sub_(x, alpha=-r),
    "value": lambda x, r: torch.addcmul(x, x, x, value=r),
    "divided by": lambda x, r: r / x,
    "closure": lambda x, r: [lambda: x * r][0](),
    "keywords": lambda x, r: (lambda **words: x * words["rate"])(rate=r),
    "arithmetic": lambda x, r: x * ((1 - r) / (r + 2) ** 0.5 - -r),
    "root": lambda x, r: x * math.sqrt(r),
    "as float": lambda x, r: x * float(r),
    "half": lambda x, r: x.half() * r,
    "bfloat16": lambda x, r: x.bfloat16() + r,
    "double": lambda x, r: x.double() - r,
    "integers": lambda x, r: x.long() * r,
    "is none": lambda x, r: x if r is None else x * r,
    "is not none": lambda x, r: x * r if r is not None else x,
    "is a float": lambda x, r: x * r if isinstance(r, float) else x,
    "is a tensor": lambda x, r: x if isinstance(r, torch.Tensor) else x * r,
    "type": lambda x, r: x * r if type(r) is float else x,
    "in a tuple": lambda x, r: x * (r, 1)[0],
    "in a list": lambda x, r: x * [1, r][1],
    "in a dict": lambda x, r: x * {"rate": r}["rate"],
    "keyword": lambda x, r: (lambda *, rate: x * rate)(rate=r),
    "default": lambda x, r: (lambda y, rate=r: y * rate)(x),
    "starred": lambda x, r: (lambda *args: args[0] * args[1])(*[x, r]),
    "comprehension": lambda x, r: sum(x * k for k in [r, r * 2]),
    "twice": lambda x, r: x * r + r,
    "returned": lambda x, r: (x * r, r),
    "returned in a list": lambda x, r: (x * r, [r, r]),
    "returned in a dict": lambda x, r: {"loss": x.sum(), "rate": r},
    "computed and returned": lambda x, r: (x * r, r * 2, -r),
    "identity": lambda x, r: (x * r, r is r),
    "list of numbers": lambda x, r: torch._foreach_mul([x, x + 1], [r, 2.0]),
    "lerp": lambda x, r: x.lerp(x + 1, r),
}


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_rate_is_an_input_after_some_captures(use):
    compiled = framejit.to_static(use)
    with counts.counting() as counted:
        for call in range(CALLS):
            same(compiled(x3(), rate(call)), use(x3(), rate(call)))
    assert counted.captures <= SOME, counted.as_dict()
    assert not counted.breaks and not counted.fallbacks, counted.as_dict()


NUMBERS = [0.5, 0.25, 3.0, -0.0, 0.0, float("inf"), float("-inf"), float("nan"), 1e-320, 1e308, 2, True, 7.0]


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_any_number_gives_what_eager_gives(use):
    def outcome(function, number):
        try:
            return function(x3(), number)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__, str(error)

    compiled = framejit.to_static(use)
    for number in NUMBERS + NUMBERS[::-1]:
        same(outcome(compiled, number), outcome(use, number))


# ---- where it is read ----


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.rate = 1.0
        self.options = {"rate": 1.0, "name": "a"}
        self.rates = [2.0, 1.0]


class OfAnAttribute(Model):
    def forward(self, x, rate):
        self.rate = rate
        return self.step(x)

    def step(self, x):
        return self.linear(x) * self.rate


class OfADict(Model):
    def forward(self, x):
        return self.linear(x) * self.options["rate"]

    def change(self, rate):
        self.options["rate"] = rate


class OfAList(Model):
    def forward(self, x):
        return self.linear(x) * self.rates[1] + self.rates[0]

    def change(self, rate):
        self.rates[1] = rate


class Attribute(Model):
    def forward(self, x):
        return self.linear(x) * self.rate

    def change(self, rate):
        self.rate = rate


class OfATuple(Model):
    def forward(self, x):
        first, second = self.options["rates"]
        return self.linear(x) * first + second, self.options["rates"]

    def change(self, rate):
        self.options["rates"] = (rate, 0.5)


class RunningMean(Model):
    def forward(self, x):
        y = self.linear(x)
        self.rate = 0.9 * self.rate + 0.1 * y.mean().item()
        return y - self.rate

    def change(self, rate):
        pass


class Totals(Model):
    def forward(self, x):
        y = self.linear(x)
        self.options["rate"] += y.sum().item()
        self.rates[0] += y.abs().max().item()
        return y

    def change(self, rate):
        pass


class Decay(Model):
    def forward(self, x):
        self.rate *= 0.9
        return self.linear(x) * self.rate

    def change(self, rate):
        pass


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("kind", [Attribute, OfADict, OfAList, OfATuple, RunningMean, Totals, Decay])
@pytest.mark.parametrize("backend", ["aten", "native"])
def test_a_rate_of_a_model(kind, backend):
    torch.manual_seed(0)
    eager, compiled = kind(), kind()
    compiled.load_state_dict(eager.state_dict())
    framejit.to_static(compiled, backend=backend)
    with counts.counting() as counted:
        for call in range(CALLS):
            for model in (eager, compiled):
                model.change(rate(call))
            got, wanted = compiled(x3()), eager(x3())
            if kind is OfATuple:
                assert got[1] is compiled.options["rates"]
            if backend == "aten":
                same(got, wanted)
                same([compiled.rate, compiled.options, compiled.rates], [eager.rate, eager.options, eager.rates])
            else:
                torch.testing.assert_close(got, wanted)
                assert compiled.rate == pytest.approx(eager.rate) and compiled.rates == pytest.approx(eager.rates)
    assert counted.captures <= SOME, counted.as_dict()
    assert not counted.breaks and not counted.fallbacks, counted.as_dict()


RATE = 1.0


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
def test_a_rate_of_the_module_and_of_a_closure(monkeypatch):
    factor = 1.0

    def program(x):
        return x * RATE + factor

    compiled = framejit.to_static(program)
    with counts.counting() as counted:
        for call in range(CALLS):
            monkeypatch.setitem(globals(), "RATE", rate(call))
            factor = rate(call) + 1
            same(compiled(x3()), program(x3()))
    assert counted.captures <= SOME and not counted.breaks, counted.as_dict()


def test_the_same_object_comes_back():
    def program(x, r):
        return x * r, r, [r], {"r": r}

    compiled = framejit.to_static(program)
    for call in range(CALLS):
        number = rate(call)
        _, one, (two,), table = compiled(x3(), number)
        assert one is number and two is number and table["r"] is number


def test_attribute_that_each_read_makes():
    def program(x, info):
        kept = info.eps
        return x * info.eps + kept, info.eps is info.eps, kept is kept

    compiled = framejit.to_static(program)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16) * 2:
        info = torch.finfo(dtype)
        same(compiled(x3(), info), program(x3(), info))


def test_two_that_are_one_object():
    def program(x, a, b):
        return x * a + b, a is b

    compiled = framejit.to_static(program)
    for call in range(CALLS):
        a, b = rate(call), rate(call + 1)
        for args in [(a, b), (a, a), (b, b), (b, float(str(b)))]:
            same(compiled(x3(), *args), program(x3(), *args))


# ---- where the value matters ----

LOOKS = {
    "compared": lambda x, r: x * r if r > 0.05 else x - r,
    "truth": lambda x, r: x * r if r else x,
    "formatted": lambda x, r: (x * r, f"{r:.3f}"),
    "power": lambda x, r: x**r,
    "filled": lambda x, r: torch.zeros(3).fill_(r) + x,
    "rounded": lambda x, r: x * round(r, 2),
    "to int": lambda x, r: x * int(r * 100),
    "computed first": lambda x, r: x - 1 if r * 2 - 0.01 > 0.1 else x + r,
    "dropout": lambda x, r: torch.nn.functional.dropout(x, min(r, 1.0), training=False) * r,
    "clamp": lambda x, r: x.clamp(-r, r),
    "a key": lambda x, r: (x * r, {r: 1}),
    "a tensor": lambda x, r: x * torch.tensor(r),
    "of the same": lambda x, r: (x * r, r == r, r != r),
    "in": lambda x, r: (x * r, r in [r, 1.0]),
    "full": lambda x, r: torch.full((3,), r) + x,
}


@pytest.mark.parametrize("use", LOOKS.values(), ids=LOOKS.keys())
def test_what_looks_at_the_number_sees_it(use):
    compiled = framejit.to_static(use)
    for call in range(3 * CALLS):
        same(compiled(x3(), rate(call)), use(x3(), rate(call)))
    for number in NUMBERS[:4]:
        same(compiled(x3(), number), use(x3(), number))


@pytest.mark.parametrize("use", LOOKS.values(), ids=LOOKS.keys())
def test_a_number_that_is_looked_at_makes_no_break_before_it_has_many_values(use):
    compiled = framejit.to_static(use)
    for _ in range(2):
        for number in (0.01, 0.02, 0.03, 0.04):
            with counts.counting() as counted:
                same(compiled(x3(), number), use(x3(), number))
            assert not counted.breaks and not counted.fallbacks
    assert not counted.captures and counted.hits


def test_full_graph_with_a_rate():
    def program(x, r):
        return x * r

    compiled = framejit.to_static(program, full_graph=True)
    for call in range(2 * CALLS):
        same(compiled(x3(), rate(call)), program(x3(), rate(call)))


# ---- gradients ----


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_of_what_a_rate_scales(inside):
    def program(x, r):
        loss = ((x * r).tanh() * (1 - r) + (x * x) / r - (r - x)).sum()
        if inside:
            loss.backward()
        return loss

    compiled = framejit.to_static(program)
    with counts.counting() as counted:
        for call in range(CALLS):
            found = []
            for function in (compiled, program):
                x = x3().requires_grad_()
                loss = function(x, rate(call))
                if not inside:
                    loss.backward()
                found.append((loss.detach(), x.grad))
            same(*found)
    assert counted.captures <= SOME and not counted.breaks, counted.as_dict()


def test_second_derivative_of_what_a_rate_scales():
    def program(x, r):
        return ((x * r).tanh() * r).sum()

    compiled = framejit.to_static(program)
    for call in range(CALLS):
        found = []
        for function in (compiled, program):
            x = x3().requires_grad_()
            (first,) = torch.autograd.grad(function(x, rate(call)), x, create_graph=True)
            found.append((first.detach(), torch.autograd.grad(first.sum(), x)[0]))
        same(*found)


SCHEDULES = {
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.95**epoch),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40),
}
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "Adam, foreach": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    "SGD, foreach": lambda parameters: torch.optim.SGD(parameters, lr=0.01, foreach=True),
}


@pytest.mark.runs_once("a shadowed call is made twice, and counts how often what it holds is captured")
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_step_under_a_schedule_is_one_graph(optimizer, schedule):
    def train(convert):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        optim = optimizer(net.parameters())
        scheduler = schedule(optim)

        def step(x):
            optim.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optim.step()
            return loss.detach()

        step = convert(step)
        losses, captures = [], []
        for _ in range(2 * CALLS):
            with counts.counting() as counted:
                losses.append(step(torch.randn(4, 3)))
            scheduler.step()
            captures.append(counted.captures)
        assert not counted.breaks and not counted.fallbacks
        return [losses, list(net.parameters())], captures

    wanted, _ = train(lambda step: step)
    got, captures = train(framejit.to_static)
    same(got, wanted)
    assert sum(captures) <= SOME + 2 and not any(captures[SOME + 2 :]), captures  # two steps make the optimiser's state


# ---- back ends ----


def test_a_back_end_of_the_program_is_given_no_numbers():
    seen = []

    def back_end(module, inputs):
        seen.append([type(value) for value in inputs])
        return module.forward

    def program(x, r):
        return x * r + 1

    compiled = framejit.to_static(program, backend=back_end)
    for call in range(CALLS):
        same(compiled(x3(), rate(call)), program(x3(), rate(call)))
    assert seen and all(types == [torch.Tensor] for types in seen)


def test_the_graph_has_the_number_as_an_input():
    def program(x, r):
        return x * r

    compiled = framejit.to_static(program)
    for call in range(CALLS):
        compiled(x3(), rate(call))
    last, *by_value = (str(graph) for graph in compiled.graphs)  # the most recently used first
    assert "tensor<f64, cpu, wrapped>) {" in last and "aten.mul.Tensor(%0, %1)" in last
    assert len(by_value) < SOME and not any("wrapped" in graph for graph in by_value)
