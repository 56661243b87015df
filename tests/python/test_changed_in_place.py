"""A tensor that a backward reads is changed in place after the graph that made it: the error is eager's, to the word."""

import pytest
import torch
from torch import nn

import framejit


def chain(x):
    y = x.sin()
    return y, y.cos()


def own_result(x):
    y = x.exp()
    return y, y


def view_of_a_result(x):
    y = x.sin()
    return y, y[1:].cos()


def view_alone(x):
    y = x.sin()[1:]
    return y, y.cos()


def product_with_an_input(x):
    y = x * 2
    return y, (y * x).sum()


def read_twice(x):
    y = x.sin()
    z = y * 2
    return y, z.cos() * y


def second_of_two(x):
    y, z = x.sin(), x.cos()
    return z, (y * y) * z


def written_in_the_graph(x):
    y = x.sin()
    y.add_(1)
    return y, y.cos()


def one_of_several_results(x):
    values, _ = x.sin().max(0)
    return values, values * values


def matrix_product(x):
    y = nn.functional.linear(x.expand(2, 3), x.expand(4, 3), x[:1].expand(4))
    return y, y @ x[:1].expand(4, 2)


def softmax(x):
    y = x.softmax(0)
    return y, y * 1


def layer_norm(x):
    y = nn.functional.layer_norm(x.sin(), (3,))
    return y, y * y


def detached(x):
    y = x.sin()
    return y.detach(), y.cos()


def leaf(x):
    return x, x.cos()


def read_by_nothing(x):
    y = x.sin()
    return y, y * 1


PROGRAMS = [chain, own_result, view_of_a_result, view_alone, product_with_an_input, read_twice, second_of_two, written_in_the_graph]
PROGRAMS += [one_of_several_results, matrix_product, softmax, layer_norm, detached, leaf, read_by_nothing]


def outcome(fn, anomaly):
    """What the program says, or the gradient."""
    x = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)
    changed, result = fn(x)
    with torch.no_grad():
        changed.mul_(2)
    with torch.autograd.set_detect_anomaly(anomaly):
        try:
            result.sum().backward()
        except RuntimeError as error:
            return str(error)
    return x.grad.tolist()


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")
@pytest.mark.parametrize("anomaly", [False, True], ids=["plain", "anomaly mode"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_error_is_eagers(program, anomaly):
    compiled = framejit.to_static(program, backend="aten")
    expected = outcome(program, anomaly)
    assert isinstance(expected, str) == (program is not read_by_nothing)
    for _ in range(2):
        assert outcome(compiled, anomaly) == expected
    assert compiled.cache_info().hits == 1
