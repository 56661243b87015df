"""Generators that a loop leaves in the middle of a `yield from`: as a model's parameters beside a shorter list."""

import pytest
import torch

from support.same_as_eager import assert_same_as_eager


def delegates(n):
    yield from range(n)


def delegates_twice(n):
    yield from delegates(n)


def delegates_in_a_loop(n):
    for _ in range(2):
        yield from (i * 2 for i in range(n))


def tidies_up(n):
    try:
        yield from range(n)
    finally:
        LEFT.append(n)


LEFT = []


@pytest.mark.parametrize("make", [delegates, delegates_twice, delegates_in_a_loop], ids=lambda make: make.__name__)
def test_left_in_the_middle(make):
    def program(x):
        for a, b in zip([1, 2], make(5)):
            x = x * a + b
        for b in make(5):
            if b > 1:
                break
            x = x + b
        return x + next(make(3))

    assert_same_as_eager(program, torch.tensor([0.5, -1.5]), graphs=1, breaks=0)


def test_code_that_runs_when_it_is_left():
    def program(x):
        for a, b in zip([1, 2], tidies_up(5)):
            x = x * a + b
        LEFT.append("after")
        return x

    assert_same_as_eager(program, torch.tensor([0.5, -1.5]), graphs=None, breaks=None)


def test_parameters_of_two_models_side_by_side():
    nets = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)) for _ in range(2)]

    def program(x):
        for one, other in zip(nets[0].parameters(), nets[1].parameters()):
            x = x + one.sum() * other.sum()
        for (_, one), other in zip(nets[0].named_parameters(), nets[1][0].parameters()):
            x = x - one.sum() * other.sum()
        return x

    assert_same_as_eager(program, torch.tensor([0.5, -1.5]), graphs=1, breaks=0)
