"""The public surface: what `to_static` takes, what it returns, switches, reports, pickling, lifetime of switches."""

import copy
import functools
import inspect
import os
import pickle
import re

import pytest
import torch
from torch import nn

import framejit
from support import counts
from support.counts import at_least


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def plus_one(x, n=1, *, scale=2):
    """Adds."""
    return (x + n) * scale


def broken(x):
    y = x.sin()
    print("break")
    return y.cos()


BREAK_LINE = broken.__code__.co_firstlineno + 2


def check_runs_compiled(compiled, eager, *args, **kwargs):
    """Cold and warm calls equal eager, the cold one captures, the warm one hits."""
    expected = eager(*args, **kwargs)
    with counts.expect_capture("cold"):
        assert torch.equal(compiled(*args, **kwargs), expected)
    with counts.expect_hit("warm"):
        assert torch.equal(compiled(*args, **kwargs), expected)


# What to_static takes


def test_function():
    check_runs_compiled(framejit.to_static(plus_one), plus_one, x3(), 3, scale=4)


def test_decorator_without_and_with_arguments():
    @framejit.to_static
    def first(x):
        return x + 1

    @framejit.to_static(full_graph=True)
    def second(x):
        return x + 1

    check_runs_compiled(first, lambda x: x + 1, x3())
    check_runs_compiled(second, lambda x: x + 1, x3())


def test_lambda():
    check_runs_compiled(framejit.to_static(lambda x: x * 2), lambda x: x * 2, x3())


def test_partial():
    partial = functools.partial(plus_one, n=5)
    check_runs_compiled(framejit.to_static(partial), partial, x3(), scale=3)


def test_builtin_of_torch():
    assert torch.equal(framejit.to_static(torch.sin)(x3()), torch.sin(x3()))


class Model:
    def __init__(self, n):
        self.n = n

    @framejit.to_static
    def run(self, x):
        return x * self.n

    @framejit.to_static
    @classmethod
    def outer_class_method(cls, x):
        return x + len(cls.__name__)

    @classmethod
    @framejit.to_static
    def inner_class_method(cls, x):
        return x + len(cls.__name__)

    @framejit.to_static
    @staticmethod
    def outer_static_method(x):
        return x - 1

    @staticmethod
    @framejit.to_static
    def inner_static_method(x):
        return x - 1

    def plain(self, x):
        return x / self.n

    def __call__(self, x):
        return x + self.n


def test_methods_in_a_class_body():
    check_runs_compiled(Model(3).run, lambda x: x * 3, x3())
    model = Model(4)
    check_runs_compiled(model.run, lambda x: x * 4, x3())
    assert torch.equal(Model.run(model, x3()), x3() * 4)


@pytest.mark.parametrize("name", ["outer_class_method", "inner_class_method"])
def test_class_method(name):
    check_runs_compiled(getattr(Model, name), lambda x: x + 5, x3())
    assert torch.equal(getattr(Model(1), name)(x3()), x3() + 5)


@pytest.mark.parametrize("name", ["outer_static_method", "inner_static_method"])
def test_static_method(name):
    check_runs_compiled(getattr(Model, name), lambda x: x - 1, x3())
    assert torch.equal(getattr(Model(1), name)(x3()), x3() - 1)


def test_bound_method():
    model = Model(2)
    compiled = framejit.to_static(model.plain)
    check_runs_compiled(compiled, model.plain, x3())
    model.n = 4
    assert torch.equal(compiled(x3()), x3() / 4)


def test_callable_object():
    model = Model(2)
    check_runs_compiled(framejit.to_static(model), model, x3())


def test_class_that_makes_objects():
    assert framejit.to_static(Model)(3).n == 3


def test_module():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    plain = copy.deepcopy(model)
    assert framejit.to_static(model) is model
    check_runs_compiled(model, plain, torch.ones(2, 3))


def test_class_decorated_module_stays_a_class():
    model = framejit.to_static(nn.Linear(3, 3))
    assert type(model) is nn.Linear and isinstance(model, nn.Module)


def test_static_function_called_inside_a_static_function():
    inner = framejit.to_static(lambda x: x + 1)

    def f(x):
        return inner(x) * 2

    with counts.expect_counts("nested", graphs=1, breaks=0):
        compiled = framejit.to_static(f)
        assert torch.equal(compiled(x3()), (x3() + 1) * 2)


def test_to_static_twice_is_once():
    compiled = framejit.to_static(framejit.to_static(plus_one))
    check_runs_compiled(compiled, plus_one, x3())


def test_plain_function_is_untouched():
    code = plus_one.__code__
    compiled = framejit.to_static(plus_one)
    compiled(x3())
    assert plus_one.__code__ is code
    with counts.expect_counts("plain", captures=0, hits=0, misses=0):
        plus_one(x3())


# What comes back


def test_names_and_signature():
    compiled = framejit.to_static(plus_one)
    assert compiled.__name__ == "plus_one"
    assert compiled.__qualname__ == plus_one.__qualname__
    assert compiled.__doc__ == "Adds."
    assert compiled.__module__ == __name__
    assert compiled.__wrapped__ is plus_one
    assert inspect.signature(compiled) == inspect.signature(plus_one)
    assert callable(compiled)
    counts.check_text("repr", repr(compiled), "plus_one")


def test_keyword_and_default_arguments():
    compiled = framejit.to_static(plus_one)
    for args, kwargs in [((), {}), ((3,), {}), ((), {"n": 3}), ((), {"scale": 5}), ((3,), {"scale": 5})]:
        assert torch.equal(compiled(x3(), *args, **kwargs), plus_one(x3(), *args, **kwargs))


def test_graphs_code_and_guards_can_be_read():
    compiled = framejit.to_static(broken)
    compiled(x3())
    counts.check_captured(compiled, "sin", "cos")
    assert isinstance(compiled.code, str)
    counts.check_text("code", compiled.code, "print")
    counts.check_text("guards", compiled.guards, "x")


def test_graph_text_names_the_users_line():
    compiled = framejit.to_static(broken)
    compiled(x3())
    lines = [str(BREAK_LINE - 1), str(BREAK_LINE + 1)]
    counts.check_text("graphs", compiled.graphs, "test_api.py", *lines)


def test_cache_info_and_reset():
    compiled = framejit.to_static(plus_one)
    compiled(x3())
    compiled(x3())
    compiled(torch.ones(5))
    info = compiled.cache_info()
    counts.check_equal("cache info", (info.hits, info.entries, info.graphs, info.breaks), (info.hits, 2, 2, 0))
    counts.check_true("hits", info.hits >= 1)
    compiled.reset()
    info = compiled.cache_info()
    counts.check_equal("cache info", (info.hits, info.entries), (0, 0))
    with counts.expect_capture("after a reset"):
        compiled(x3())


def test_two_static_functions_do_not_share_a_reset():
    first, second = framejit.to_static(plus_one), framejit.to_static(broken)
    first(x3())
    second(x3())
    first.reset()
    with counts.expect_hit("the other one"):
        second(x3())


# Totals


def test_stats_keys_and_values():
    framejit.reset()
    compiled = framejit.to_static(broken)
    compiled(x3())
    compiled(x3())
    stats = framejit.stats()
    wanted = {"captures", "graphs", "ops", "breaks", "break_reasons", "fallbacks", "hits", "misses", "capture_s"} | {"shadowed", "unshadowed"}
    assert wanted <= set(stats)
    counts.check_equal("graphs, ops and breaks", (stats["graphs"], stats["ops"], stats["breaks"]), (2, 2, 1))
    counts.check_equal("break reasons", sum(stats["break_reasons"].values()), 1)
    counts.check_true("capture time", 0 < stats["capture_s"] < 10)
    assert isinstance(stats["capture_s"], float)


def test_stats_is_a_copy():
    framejit.stats()["captures"] = 1000
    assert framejit.stats()["captures"] < 1000


def test_reset_clears_totals_and_caches():
    compiled = framejit.to_static(plus_one)
    compiled(x3())
    framejit.reset()
    stats = framejit.stats()
    assert stats["captures"] == stats["hits"] == stats["misses"] == stats["breaks"] == 0
    assert stats["break_reasons"] == {}
    with counts.expect_capture("after a reset"):
        assert torch.equal(compiled(x3()), plus_one(x3()))


def test_reset_between_two_calls_of_a_function_with_breaks(capsys):
    compiled = framejit.to_static(broken)
    for _ in range(3):
        assert torch.equal(compiled(x3()), x3().sin().cos())
        framejit.reset()


def test_reset_forgets_which_code_was_found_idle():
    calls = [0]
    letters = re.compile("[a-d]")

    def name(match):
        calls[0] += 1  # each call captures anew
        return "x" * calls[0]

    def f(x):
        return x.sin(), letters.sub(name, "abcd")

    def captures():
        framejit.reset()
        compiled = framejit.to_static(f)
        with counts.counting() as counted:
            compiled(x3())
            compiled(x3())
        return counted.captures

    first = captures()
    counts.check_equal("captures", captures(), first)


def test_functions_of_idle_code_are_idle_too():
    """Code in which nothing is worth a capture is left to the interpreter, and so are the functions that it calls."""
    letters = re.compile("[a-d]")

    def upper(text):
        return text.upper()

    def name(match):
        text = upper("x" * len(letters.pattern))
        os.getpid()  # the capture of this ends here
        return text

    def f(x):
        return x.sin(), letters.sub(name, "abcd")

    compiled = framejit.to_static(f)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            compiled(x3())
    with counts.counting() as counted:
        compiled(x3())
    counts.check_equal("captures", counted.captures, 0)


def test_reset_from_inside():
    def f(x):
        y = x.sin()
        framejit.reset()
        return y.cos()

    compiled = framejit.to_static(f)
    for _ in range(3):
        assert torch.equal(compiled(x3()), x3().sin().cos())


# full_graph, breaks, switches


def test_full_graph_raises_at_a_break(capsys):
    compiled = framejit.to_static(broken, full_graph=True)
    counts.check_raises(RuntimeError, compiled, x3(), parts=("test_api.py", str(BREAK_LINE), "print"))
    assert capsys.readouterr().out in ("", "break\n")


def test_full_graph_raises_in_a_callee_with_its_line():
    compiled = framejit.to_static(lambda x: broken(x + 1), full_graph=True)
    counts.check_raises(RuntimeError, compiled, x3(), parts=("test_api.py", str(BREAK_LINE)))


def test_full_graph_runs_what_has_no_break():
    check_runs_compiled(framejit.to_static(plus_one, full_graph=True), plus_one, x3())


def test_full_graph_lets_the_users_exception_through():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        framejit.to_static(f, full_graph=True)(x3())


def test_graph_break_is_harmless_outside():
    assert framejit.graph_break() is None


@pytest.mark.runs_once("the function asks whether it is captured")
def test_is_capturing():
    assert framejit.is_capturing() is False

    def f(x):
        return x + 1, framejit.is_capturing()

    assert f(x3())[1] is False
    compiled = framejit.to_static(f)
    compiled(x3())
    counts.check_equal("is_capturing", compiled(x3())[1], True)
    assert framejit.is_capturing() is False


def test_not_to_static():
    @framejit.not_to_static
    def callee(x):
        return x.exp()

    assert torch.equal(callee(x3()), x3().exp())
    assert callee.__name__ == "callee"
    compiled = framejit.to_static(lambda x: callee(x.sin()).cos())
    with counts.expect_counts("cold", graphs=2, breaks=at_least(1)):
        assert torch.equal(compiled(x3()), x3().sin().exp().cos())
    counts.check_captured(compiled, "sin", "cos")
    counts.check_not_captured(compiled, "exp")


def test_not_to_static_on_a_module_and_a_method():
    class Part:
        @framejit.not_to_static
        def run(self, x):
            return x.exp()

    layer = framejit.not_to_static(nn.Linear(3, 3))
    part = Part()
    compiled = framejit.to_static(lambda x: layer(part.run(x.sin())).cos())
    for _ in range(2):
        assert torch.equal(compiled(x3()), layer(x3().sin().exp()).cos())
    counts.check_not_captured(compiled, "exp", "addmm")


def test_enable_to_static():
    compiled = framejit.to_static(plus_one)
    framejit.enable_to_static(False)
    try:
        with counts.expect_counts("disabled", captures=0, hits=0, misses=0):
            assert torch.equal(compiled(x3()), plus_one(x3()))
    finally:
        framejit.enable_to_static(True)
    check_runs_compiled(compiled, plus_one, x3())


def test_enable_to_static_reaches_modules():
    model = framejit.to_static(nn.Linear(3, 3))
    with framejit.enable_to_static_guard(False), counts.expect_counts("disabled", captures=0, hits=0, misses=0):
        model(x3())
    with counts.expect_capture("enabled"):
        model(x3())


def test_enable_to_static_guard_restores():
    compiled = framejit.to_static(plus_one)
    with framejit.enable_to_static_guard(False):
        with counts.expect_counts("disabled", captures=0):
            compiled(x3())
        with framejit.enable_to_static_guard(True), counts.expect_capture("enabled within"):
            compiled(x3())
        with counts.expect_counts("disabled again", captures=0, hits=0):
            compiled(x3())
    with counts.expect_hit("restored"):
        compiled(x3())


def test_enable_to_static_guard_restores_after_an_exception():
    compiled = framejit.to_static(plus_one)
    with pytest.raises(ValueError), framejit.enable_to_static_guard(False):
        raise ValueError
    with counts.expect_capture("restored"):
        compiled(x3())


def test_explain(capsys):
    report = framejit.explain(broken, x3())
    counts.check_text("explain", str(report), "test_api.py", str(BREAK_LINE), "print")
    counts.check_equal("explain", (len(report.graphs), len(report.breaks), report.ops), (2, 1, 2))
    assert torch.equal(report.result, broken(x3()))


def test_explain_of_a_function_without_break_and_with_keywords():
    report = framejit.explain(plus_one, x3(), scale=3)
    counts.check_equal("explain", (len(report.graphs), len(report.breaks)), (1, 0))
    assert torch.equal(report.result, plus_one(x3(), scale=3))


# Modules


def test_state_dict_keys_never_change():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    keys, names = list(model.state_dict()), [name for name, _ in model.named_modules()]
    framejit.to_static(model)
    model(torch.ones(2, 3))
    assert list(model.state_dict()) == keys
    assert [name for name, _ in model.named_modules()] == names
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    assert len(list(model.parameters())) == 4


def test_converted_submodule():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    plain = copy.deepcopy(model)
    framejit.to_static(model[0])
    with counts.expect_counts("submodule", captures=at_least(1)):
        assert torch.equal(model(x3()), plain(x3()))


def test_hooks_of_a_converted_module_run():
    seen = []
    model = framejit.to_static(nn.Linear(3, 3))
    handle = model.register_forward_hook(lambda module, args, output: seen.append(1))
    model(x3())
    model(x3())
    assert seen == [1, 1]
    handle.remove()
    model(x3())
    assert seen == [1, 1]


def test_deepcopy_of_a_converted_module():
    model = framejit.to_static(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    model(x3())
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.zero_()
        other[0].bias.fill_(1)
    assert torch.equal(other(x3()), torch.ones(3).tanh())
    assert not torch.equal(model(x3()), other(x3()))
    assert other.state_dict().keys() == model.state_dict().keys()


def test_deepcopy_of_a_converted_module_that_copies_its_own_dictionary():
    class Symmetric(nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).t()

    layer = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())  # with a __deepcopy__ of torch's
    model = framejit.to_static(layer)
    model(x3())
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.bias.fill_(1)
    assert torch.equal(other(x3()), x3() @ other.weight.t() + 1)
    assert torch.equal(model(x3()), nn.functional.linear(x3(), model.weight, model.bias))


def test_deepcopy_of_an_object_with_a_method_of_its_own_that_is_static():
    class Scale:
        def __init__(self, factor):
            self.factor = factor
            self.fast = framejit.to_static(self.apply)

        def apply(self, x):
            return x * self.factor

    one = Scale(2.0)
    one.fast(x3())
    one.fast.note = ["kept"]
    other = copy.deepcopy(one)
    other.factor = 3.0
    assert torch.equal(one.fast(x3()), x3() * 2) and torch.equal(other.fast(x3()), x3() * 3)
    assert other.fast.__wrapped__.__self__ is other and other.fast.note == ["kept"]


def test_pickle_of_a_converted_module():
    model = framejit.to_static(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    expected = model(x3())
    other = pickle.loads(pickle.dumps(model))
    assert torch.equal(other(x3()), expected)


def test_save_and_load_of_a_converted_module(tmp_path):
    model = framejit.to_static(nn.Linear(3, 3))
    expected = model(x3())
    torch.save(model, str(tmp_path / "model.pt"))
    loaded = torch.load(str(tmp_path / "model.pt"), weights_only=False)
    assert torch.equal(loaded(x3()), expected)


@framejit.to_static
def static_plus_one(x):
    return plus_one(x)


def test_copy_and_pickle_of_a_static_function():
    compiled = framejit.to_static(plus_one)
    assert torch.equal(copy.copy(compiled)(x3()), plus_one(x3()))
    assert torch.equal(copy.deepcopy(compiled)(x3()), plus_one(x3()))
    assert pickle.loads(pickle.dumps(static_plus_one)) is static_plus_one


def test_module_moved_after_conversion():
    model = framejit.to_static(nn.Linear(3, 3))
    model(x3())
    model.double()
    assert model(x3().double()).dtype == torch.float64
    model.half().float()
    assert model(x3()).dtype == torch.float32


def test_subclass_check_and_attribute_access_of_a_converted_module():
    class Net(nn.Module):
        extra = 3

        def forward(self, x):
            return x * self.extra

        def other(self, x):
            return x + self.extra

    net = framejit.to_static(Net())
    assert isinstance(net, Net) and net.extra == 3
    assert torch.equal(net.other(x3()), x3() + 3)
    net.extra = 5
    assert torch.equal(net(x3()), x3() * 5)
    assert torch.equal(net.forward(x3()), x3() * 5)


# Typing


def test_package_is_typed():
    import os

    folder = os.path.dirname(framejit.__file__)
    counts.check_true("py.typed", os.path.exists(os.path.join(folder, "py.typed")))


@pytest.mark.parametrize(
    "name", ["to_static", "not_to_static", "enable_to_static", "enable_to_static_guard", "is_capturing", "graph_break", "explain", "stats", "reset"]
)
def test_every_public_function_has_a_docstring(name):
    counts.check_true(f"docstring of {name}", bool(getattr(framejit, name).__doc__))
