"""`backend=`: the reference executor by name, or any callable that compiles an fx.GraphModule."""

import pytest
import torch
from torch import nn

import framejit
from support import counts


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


class Recorder:
    """A back end that keeps what it was given and runs it as it is."""

    def __init__(self):
        self.modules, self.inputs, self.calls = [], [], 0

    def __call__(self, module, example_inputs):
        self.modules.append(module)
        self.inputs.append(example_inputs)

        def run(*args):
            self.calls += 1
            return module.forward(*args)

        return run


def test_aten_by_name():
    compiled = framejit.to_static(lambda x: x.sin() + 1, backend="aten")
    assert torch.equal(compiled(x3()), x3().sin() + 1)


def test_unknown_name_is_refused():
    counts.check_raises(ValueError, lambda: framejit.to_static(lambda x: x, backend="no such back end"), parts=("no such back end",))


def test_callable_gets_a_graph_module_and_example_inputs():
    recorder = Recorder()
    compiled = framejit.to_static(lambda x, y: x.sin() * y, backend=recorder)
    for _ in range(2):
        assert torch.equal(compiled(x3(), x3() + 1), x3().sin() * (x3() + 1))
    counts.check_equal("back end", (len(recorder.modules), recorder.calls), (1, 2))
    counts.check_true("GraphModule", all(isinstance(module, torch.fx.GraphModule) for module in recorder.modules))
    counts.check_true("inputs", all([t.shape for t in inputs] == [(3,), (3,)] for inputs in recorder.inputs))
    counts.check_true("operators", all("sin" in str(module.graph) and "mul" in str(module.graph) for module in recorder.modules))


def test_callable_sees_parameters():
    torch.manual_seed(0)
    recorder, model = Recorder(), nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    expected = model(x3())
    compiled = framejit.to_static(lambda x: model(x), backend=recorder)
    with torch.no_grad():  # graphs with a backward run through LibTorch
        for _ in range(2):
            assert torch.equal(compiled(x3()), expected)
    counts.check_equal("graphs", len(recorder.modules), 1)
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.fill_(2)
    assert torch.equal(compiled(x3()), torch.full((2,), 2.0))


def test_callable_gets_one_graph_per_side_of_a_break(capsys):
    recorder = Recorder()

    def f(x):
        y = x.sin()
        print("break")
        return y.cos()

    compiled = framejit.to_static(f, backend=recorder)
    for _ in range(2):
        assert torch.equal(compiled(x3()), f(x3()))
    counts.check_equal("graphs", (len(recorder.modules), recorder.calls), (2, 4))


@pytest.mark.runs_once("the back end is wrong on purpose")
def test_result_of_the_callable_is_used():
    compiled = framejit.to_static(lambda x: x + 1, backend=lambda module, inputs: lambda *args: [args[0] + 100])
    counts.check_true("the callable's result", torch.equal(compiled(x3()), x3() + 100))


def test_module_with_a_callable():
    recorder, model = Recorder(), nn.Linear(3, 3)
    expected = model(x3())
    framejit.to_static(model, backend=recorder)
    with torch.no_grad():
        assert torch.equal(model(x3()), expected)
    counts.check_equal("graphs", len(recorder.modules), 1)


def test_gradients_through_a_callable():
    weight = torch.ones(3, requires_grad=True)
    compiled = framejit.to_static(lambda x: (x * weight).sin(), backend=Recorder())
    compiled(x3()).sum().backward()
    assert torch.allclose(weight.grad, x3() * x3().cos())


def test_exception_of_the_callable_is_seen():
    def fails(module, inputs):
        raise KeyError("from the back end")

    compiled = framejit.to_static(lambda x: x + 1, backend=fails)
    counts.check_raises(Exception, compiled, x3(), parts=("from the back end",))


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_exception_of_a_call_of_the_callable_is_seen(kind):
    calls = []

    def backend(module, example_inputs):
        def run(*args):
            calls.append(len(args))
            raise kind("from the back end")

        return run

    compiled = framejit.to_static(lambda x: x.sin() + 1, backend=backend)
    for count in (1, 2):
        with pytest.raises(kind, match="from the back end"):
            compiled(x3())
        assert len(calls) == count


def test_inplace_and_views_through_a_callable():
    def f(x):
        y = x + 1
        y.mul_(2)
        x.add_(1)
        return y[1:], y

    compiled = framejit.to_static(f, backend=Recorder())
    for _ in range(2):
        a, b = x3(), x3()
        for got, expected in zip(compiled(a), f(b)):
            assert torch.equal(got, expected)
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", [3, ["aten"]])
def test_neither_name_nor_callable_is_refused(backend):
    counts.check_raises((TypeError, ValueError), lambda: framejit.to_static(lambda x: x, backend=backend))
