"""Parametrised modules, pruning and fusion: one graph, in inference and in training."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from support.same_as_eager import assert_same_as_eager


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


class Exponential(nn.Module):
    def forward(self, weight):
        return torch.matrix_exp(weight)

    def right_inverse(self, weight):
        return weight


class FromTwo(nn.Module):
    """A parametrisation over two tensors."""

    def forward(self, first, second):
        return first @ second

    def right_inverse(self, weight):
        return weight, torch.eye(weight.shape[1])


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 3)


def registered(*parametrisations):
    module = linear()
    for parametrisation in parametrisations:
        parametrize.register_parametrization(module, "weight", parametrisation)
    return module


def pruned():
    module = linear()
    prune.l1_unstructured(module, "weight", 0.3)
    prune.random_unstructured(module, "bias", 0.3)
    return module


def removed():
    module = registered(Symmetric())
    parametrize.remove_parametrizations(module, "weight")
    return module


def embedding():
    torch.manual_seed(0)
    return nn.Sequential(parametrizations.weight_norm(nn.Conv2d(1, 2, 2)), nn.ReLU())


MODULES = {
    "user": lambda: registered(Symmetric()),
    "two in a row": lambda: registered(Symmetric(), Exponential()),
    "over two tensors": lambda: registered(FromTwo()),
    "weight_norm": lambda: parametrizations.weight_norm(linear()),
    "spectral_norm": lambda: parametrizations.spectral_norm(linear()),
    "spectral_norm in eval": lambda: parametrizations.spectral_norm(linear()).eval(),
    "orthogonal": lambda: parametrizations.orthogonal(linear()),
    "orthogonal by householder": lambda: parametrizations.orthogonal(linear(), orthogonal_map="householder"),
    "spectral_norm of old": lambda: nn.utils.spectral_norm(linear()),
    "pruned": pruned,
    "removed again": removed,
}


@pytest.mark.parametrize("name", MODULES)
def test_training_is_one_graph(name):
    module = MODULES[name]()

    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    assert_same_as_eager(lambda x: module(x.sin()) * 2, torch.ones(2, 3), after=after, miss=None)


@pytest.mark.parametrize("name", MODULES)
def test_inference_is_one_graph(name):
    module = MODULES[name]()
    with torch.no_grad():
        assert_same_as_eager(lambda x: module(x.sin()) * 2, torch.ones(2, 3), miss=None)


def test_convolution():
    module = embedding()

    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    assert_same_as_eager(lambda x: module(x), torch.rand(2, 1, 4, 4), after=after, miss=None)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*")
def test_weight_norm_by_a_hook():
    module = nn.utils.weight_norm(linear())

    def after(result):
        result.sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    assert_same_as_eager(lambda x: module(x), torch.ones(2, 3), after=after, miss=None)


CACHED = registered(Symmetric())


@pytest.mark.parametrize("module", [CACHED, registered(Symmetric())], ids=["global", "closure"])
def test_cached_parametrisation(module):
    """The cache is keyed by addresses of modules: a graph may know that of a global."""

    def in_closure(x):
        with parametrize.cached():
            return module(x) + module(x * 2), module.weight is module.weight

    def of_global(x):
        with parametrize.cached():
            return CACHED(x) + CACHED(x * 2), CACHED.weight is CACHED.weight

    def after(result):
        result[0].sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    if module is CACHED:
        assert_same_as_eager(of_global, torch.ones(2, 3), after=after, miss=None)
    else:
        assert_same_as_eager(in_closure, torch.ones(2, 3), after=after, miss=None, graphs=None, breaks=None)


def test_parametrised_weight_that_is_read():
    module = registered(Symmetric())
    assert_same_as_eager(lambda x: x @ module.weight + module.parametrizations.weight.original, torch.ones(3, 3), miss=None)


def test_fused_modules():
    torch.manual_seed(0)
    convolution, norm = nn.Conv2d(1, 2, 2).eval(), nn.BatchNorm2d(2).eval()
    fused = nn.utils.fuse_conv_bn_eval(convolution, norm)
    assert_same_as_eager(lambda x: fused(x), torch.rand(2, 1, 4, 4), miss=None)


def test_fusing_inside():
    first, second = linear().eval(), nn.BatchNorm1d(3).eval()

    def f(x):
        weight, bias = nn.utils.fuse_linear_bn_weights(
            first.weight, first.bias, second.running_mean, second.running_var, second.eps, second.weight, second.bias)  # fmt: skip
        return nn.functional.linear(x, weight, bias)

    with torch.no_grad():
        assert_same_as_eager(f, torch.ones(2, 3), miss=None, graphs=None, breaks=None)
