"""Names of torch's modules that a captured function gives other values: what it calls afterwards sees them, as in eager."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as modules

import framejit

MODULES = [torch, F, modules]
CALLS = [(nn.Module, "__call__"), (nn.Module, "_call_impl"), (nn.Linear, "forward"), (nn.ReLU, "forward")]


@pytest.fixture
def library():
    """Gives a function that takes all changes back."""
    held = [(module, name, value) for module in MODULES for name, value in vars(module).items()]
    held += [(kind, name, vars(kind)[name]) for kind, name in CALLS]

    def restore():
        modules._global_forward_hooks.clear()
        for owner, name, value in held:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)

    yield restore
    restore()


def ones():
    model = nn.Linear(3, 3, bias=False)
    nn.init.ones_(model.weight)
    return model


def thrice(x, *args, **kwargs):
    return x * 3


def along_rows(name, dim, level):
    return 0


def plus_one(module, args, result):
    return result + 1


def function_of_torch(x):
    before = torch.layer_norm
    torch.layer_norm = thrice
    y = F.layer_norm(x, (3,))
    torch.layer_norm = before
    return y + F.layer_norm(x, (3,))


def after_it_was_called(x):
    y = F.layer_norm(x, (3,))
    torch.layer_norm = thrice
    return y + F.layer_norm(x, (3,))


def within_a_module(x):
    model = nn.LayerNorm(3)
    y = model(x)
    torch.layer_norm = thrice
    return y + model(x)


def helper_of_functional(x):
    F._get_softmax_dim = along_rows
    return F.softmax(x)


def helper_by_setattr(x):
    setattr(F, "_get_softmax_dim", along_rows)
    return F.softmax(x)


def helper_by_its_dictionary(x):
    F.__dict__["_get_softmax_dim"] = along_rows
    return F.softmax(x)


def helper_by_vars(x):
    vars(F).update(_get_softmax_dim=along_rows)
    return F.softmax(x)


def asked_overrides(x):
    F.has_torch_function_unary = lambda x: True
    F.handle_torch_function = lambda function, *args, **kwargs: x * 7
    return F.relu6(x) + F.silu(x)


def relu_of_torch(x):
    torch.relu = thrice
    return F.relu(x) + torch.relu(x) + nn.ReLU()(x)


def relu_of_functional(x):
    F.relu = thrice
    return F.relu(x) + nn.ReLU()(x)


def deleted(x):
    del torch.layer_norm
    try:
        return F.layer_norm(x, (3,))
    except AttributeError:
        return x * 5


def hooks_of_all_modules(x):
    model = ones()
    y = model(x)
    modules._global_forward_hooks = {0: plus_one}
    return y + model(x)


def hook_of_all_modules_in_place(x):
    model = ones()
    y = model(x)
    modules._global_forward_hooks[0] = plus_one
    return y + model(x)


def hook_of_all_modules_held(x):
    model, hooks = ones(), modules._global_forward_hooks
    y = model(x)
    hooks[0] = plus_one
    y = y + 2 * model(x)
    del hooks[0]
    return y + 4 * model(x)


def hook_of_all_modules_by_function(x):
    model = ones()
    handle = modules.register_module_forward_hook(plus_one)
    y = model(x)
    handle.remove()
    return y + model(x)


def call_of_an_instance(x):
    model = ones()
    model._call_impl = lambda x: x * 4
    return model(x)


def call_of_a_class(x):
    before = nn.Module._call_impl
    nn.Module._call_impl = lambda self, x: x * 4
    y = nn.ReLU()(x)
    nn.Module._call_impl = before
    return y + nn.ReLU()(x)


def forward_of_a_class(x):
    model = ones()
    before = nn.Linear.forward
    nn.Linear.forward = lambda self, x: x * 4
    y = model(x)
    nn.Linear.forward = before
    return y + model(x)


CHANGES = [
    function_of_torch, after_it_was_called, within_a_module, helper_of_functional, helper_by_setattr, helper_by_its_dictionary,
    helper_by_vars, asked_overrides, relu_of_torch, relu_of_functional, deleted, hooks_of_all_modules,
    hook_of_all_modules_in_place, hook_of_all_modules_held, hook_of_all_modules_by_function, call_of_an_instance,
    call_of_a_class, forward_of_a_class,
]  # fmt: skip


@pytest.mark.runs_once("names of torch's modules are given other values, which a second run would find")
@pytest.mark.parametrize("backend", ["aten", "native"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_called_sees_the_change(change, library, backend):
    x = torch.arange(6.0).reshape(2, 3)
    expected = change(x)
    library()
    compiled = framejit.to_static(change, backend=backend)
    for _ in range(3):
        assert torch.allclose(compiled(x), expected)
        library()
    assert framejit.stats()["captures"] >= 1


@pytest.mark.runs_once("names of torch's modules are given other values, which a second run would find")
def test_a_later_call_finds_the_change(library):
    """What was captured before a name of the library was changed is not what runs."""
    x = torch.arange(6.0).reshape(2, 3)
    compiled = framejit.to_static(lambda x: F.layer_norm(x, (3,)))
    before = compiled(x)
    torch.layer_norm = thrice
    assert torch.equal(compiled(x), x * 3)
    library()
    assert torch.equal(compiled(x), before)


def test_a_module_with_a_call_of_its_own():
    """`_call_impl` and `_compiled_call_impl` of the instance come before those of the class."""
    x = torch.ones(2, 3)
    model = ones()
    compiled = framejit.to_static(lambda model, x: model(x))
    assert torch.equal(compiled(model, x), x * 3)
    for name in ("_call_impl", "_compiled_call_impl"):
        other = copy.deepcopy(model)
        setattr(other, name, lambda x: x * 4)
        assert torch.equal(other(x), x * 4)
        assert torch.equal(compiled(other, x), x * 4)
        assert torch.equal(compiled(model, x), x * 3)
        setattr(model, name, lambda x: x * 5)
        assert torch.equal(compiled(model, x), x * 5)
        delattr(model, name)
        assert torch.equal(compiled(model, x), x * 3)
    assert framejit.stats()["captures"] >= 1
