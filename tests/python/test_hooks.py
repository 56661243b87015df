"""Hooks on modules and tensors, and what tensors carry: requires_grad, retained gradients, attributes of their own."""

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


def leaf(*values):
    return torch.tensor(values or (0.5, -1.5, 2.0), requires_grad=True)


def check(fn, *args, **options):
    LOG.clear()
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (torch.ones(2, 3),)), **options)


def check_gradients(fn, *args, **options):
    def run(*args):
        return fn(*args), args

    def after(pair):
        result, args = pair
        result.sum().backward()
        return [tensor.grad for tensor in args if isinstance(tensor, torch.Tensor)]

    return check(run, *(args or (leaf(),)), after=after, **options)


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 3)


def gradients_of(module):
    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    return after


# Modules


def test_forward_hooks():
    module = linear()
    module.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    module.register_forward_hook(lambda module, inputs, output: output + inputs[0])
    check(lambda x: module(x), after=gradients_of(module))


def test_forward_hooks_with_keywords_and_effects():
    class Module(nn.Module):
        def forward(self, x, scale=1.0):
            return x * scale

    def before(module, args, kwargs):
        LOG.append(("before", kwargs["scale"]))
        return args, {"scale": kwargs["scale"] + 1}

    def after(module, args, kwargs, output):
        LOG.append(("after", kwargs["scale"]))
        module.calls = getattr(module, "calls", 0) + 1

    module = Module()
    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after, with_kwargs=True)

    def f(x):
        return module(x, scale=2.0), len(LOG), module.calls

    check(f, warm=False)


def test_hook_that_is_added_and_removed_is_noticed():
    module = linear()
    compiled = framejit.to_static(lambda x: module(x))
    x = torch.ones(2, 3)
    plain = module(x)
    assert torch.equal(compiled(x), plain)
    handle = module.register_forward_hook(lambda module, inputs, output: output * 10)
    assert torch.equal(compiled(x), plain * 10)
    handle.remove()
    with counts.expect_hit("after the hook is gone"):
        assert torch.equal(compiled(x), plain)


def test_global_hooks():
    module = linear()
    compiled = framejit.to_static(lambda x: module(x))
    x = torch.ones(2, 3)
    plain = module(x)
    assert torch.equal(compiled(x), plain)
    handles = [module_hooks.register_module_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,)),
               module_hooks.register_module_forward_hook(lambda module, inputs, output: output * 10)]  # fmt: skip
    try:
        with counts.expect_counts("with global hooks", breaks=0, fallbacks=0):
            assert torch.equal(compiled(x), module(x))
    finally:
        for handle in handles:
            handle.remove()
    with counts.expect_hit("after the hooks are gone"):
        assert torch.equal(compiled(x), plain)


def test_always_called_hook():
    module = linear()
    module.register_forward_hook(lambda *unused: LOG.append("called"), always_call=True)
    check(lambda x: module(x), after=gradients_of(module), graphs=None, breaks=None)


def test_full_backward_hooks_run_at_each_backward():
    module = linear()
    module.register_full_backward_hook(lambda module, inputs, outputs: LOG.append(outputs[0].sum().item()))
    module.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 3,))

    def f(x):
        return module(x.sin()) * 2

    check(f, after=gradients_of(module), graphs=at_least(1), breaks=None, warm=False)
    compiled = framejit.to_static(f)
    for _ in range(3):
        LOG.clear()
        compiled(torch.ones(2, 3)).sum().backward()
        assert LOG == [36.0]


def test_full_backward_hook_without_gradients_is_one_graph():
    module = linear()
    module.register_full_backward_hook(lambda module, inputs, outputs: LOG.append("called"))
    with torch.no_grad():
        check(lambda x: module(x))


# Tensors


def test_hooks_on_inputs_run_at_each_backward():
    weight = leaf()
    weight.register_hook(lambda gradient: LOG.append("hook") or gradient * 10)
    weight.register_post_accumulate_grad_hook(lambda parameter: LOG.append("accumulated"))
    compiled = framejit.to_static(lambda x: x * weight)
    for _ in range(3):
        LOG.clear()
        weight.grad = None
        compiled(torch.ones(3)).sum().backward()
        assert LOG == ["hook", "accumulated"] and torch.equal(weight.grad, torch.full((3,), 10.0))
    assert framejit.stats()["graphs"] >= 1


def test_hook_on_an_input_with_history():
    def make():
        x = leaf()
        y = x * 2
        y.register_hook(lambda gradient: gradient * 10)
        return (y, x), {}

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(lambda y, x: (y.sin(), x), make=make, after=after)


def test_hook_inside_runs_at_each_backward():
    def f(x):
        y = x.sin()
        y.register_hook(lambda gradient: LOG.append("hook") or gradient * 10)
        return y * y

    check_gradients(f, graphs=2, breaks=1)
    compiled = framejit.to_static(f)
    for _ in range(3):
        LOG.clear()
        compiled(leaf()).sum().backward()
        assert LOG == ["hook"]


def test_gradient_kept_of_an_intermediate():
    def f(x):
        y = x.sin()
        y.retain_grad()
        return y * y, y

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(f, leaf(), after=after, graphs=2, breaks=1)


def test_gradient_kept_of_a_leaf_is_no_change():
    def f(x):
        x.retain_grad()
        return x * x

    check_gradients(f)


def test_gradient_kept_of_an_output():
    def after(result):
        result.retain_grad()
        result.sum().backward()
        return result.grad

    check(lambda x: x * x, leaf(), after=after)


def test_gradient_that_no_tensor_has_is_the_programs_error():
    def f(x):
        x.sin().retain_grad()
        return x

    check(f, torch.ones(3), raises=RuntimeError, graphs=None, breaks=None, fallbacks=None, warm=False)


# requires_grad


def test_requires_grad_that_is_so_already():
    def f(x, y):
        x.requires_grad_()
        y.requires_grad_(False)
        return x * y.requires_grad_(requires_grad=False)

    check_gradients(f, leaf(), torch.ones(3))


def test_intermediate_that_requires_grad_already():
    check_gradients(lambda x: (x * 2).requires_grad_(True) * 3)


@pytest.mark.parametrize("fresh", [lambda x: torch.ones(3), lambda x: x.detach(), lambda x: x.detach() * 2])
def test_leaf_made_inside(fresh):
    """A break: what begins to require gradients there is no input of the graph."""

    def f(x):
        y = fresh(x).requires_grad_()
        return x * y, y

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(f, leaf(), after=after, graphs=at_least(1), breaks=1)


def test_requires_grad_of_an_input_changes():
    def make():
        return (torch.ones(3),), {}

    def f(x):
        x.requires_grad_()
        return x * 2

    def after(result):
        return result.requires_grad

    check(f, make=make, after=after, graphs=at_least(1), breaks=1)


def test_detach_and_no_grad_functions():
    @torch.no_grad()
    def constant(x):
        return x.sin() * 2

    check_gradients(lambda x: constant(x) * x + x.detach() * x)


# Attributes


def test_attributes_of_an_input():
    def f(x):
        x.tag = ("seen", getattr(x, "count", 0))
        x.count = getattr(x, "count", 0) + 1
        return x + x.count, hasattr(x, "tag"), x.tag

    compiled = framejit.to_static(f)
    with counts.counting() as counted:
        for run in (f, compiled, compiled):
            x = torch.ones(3)
            for count in (1, 2):
                result, has_tag, tag = run(x)
                assert torch.equal(result, x + count) and has_tag and tag == x.tag == ("seen", count - 1)
                assert x.count == count and set(vars(x)) == {"tag", "count"}
    assert counted.breaks == 0 and counted.graphs >= 1


def test_attributes_of_a_result():
    def f(x):
        y = x + 1
        y.tag = {"of": x}
        y.view_of = y[0]
        y.itself = y
        z = y.mul_(2)
        z.late = 3
        return y, y.tag, z.late

    def after(result):
        y, tag, late = result
        assert y.tag is tag and y.itself is y and y.late == late and sorted(vars(y)) == ["itself", "late", "tag", "view_of"]
        y.view_of.add_(1)
        return y, y.view_of

    check(f, torch.ones(3), after=after)


def test_attributes_of_a_parameter():
    parameter = nn.Parameter(torch.ones(3))

    def f(x):
        parameter.seen = True
        return x * parameter, parameter.seen

    def after(result):
        seen = parameter.seen
        del parameter.seen
        return seen

    check(f, torch.ones(3), after=after)


def test_attribute_with_a_tensor_for_value():
    def f(x):
        x.double_ = x * 2
        return x.double_ + 1

    def after(result):
        return torch.ones(3)

    def make():
        x = torch.ones(3)
        return (x,), {}

    check(lambda x: (f(x), x, x.double_), make=make)


def test_attributes_at_a_break():
    def f(x):
        y = x + 1
        y.tag = "kept"
        framejit.graph_break()
        return y * 2, y.tag

    check(f, torch.ones(3), graphs=2, breaks=1)


@pytest.mark.parametrize("name", ["grad", "data", "requires_grad", "names", "sum"])
def test_attributes_that_the_type_has_are_eagers(name):
    def f(x, value):
        y = x * 2
        setattr(y, name, value)
        return getattr(y, name) is value

    value = {"grad": torch.ones(3), "data": torch.ones(3), "requires_grad": True, "names": None, "sum": len}[name]
    check(f, torch.ones(3), value, graphs=None, breaks=None, fallbacks=None)
