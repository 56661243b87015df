"""An operator fails on its data after others have written tensors of the caller or drawn random numbers."""

import pytest
import torch

import framejit
from support.same_as_eager import assert_same_as_eager

LOG = []
GOOD, BAD = torch.tensor([0, 2]), torch.tensor([0, 7])


class State:
    calls = 0


STATE = State()


def table():
    return torch.arange(6.0).view(3, 2)


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *args, graphs=1, breaks=0, **options)


def log_and_pick(x, indices):
    LOG.append("before")
    picked = torch.index_select(x, 0, indices)
    LOG.append("after")
    return picked


def add_in_place(x, indices):
    x.add_(1)
    return log_and_pick(x, indices)


def write_a_view(x, indices):
    x[1:].mul_(3)
    x.t()[0].sub_(1)
    return log_and_pick(x, indices)


def write_twice(x, indices):
    x.add_(1)
    x[0].mul_(10)
    x.neg_()
    return log_and_pick(x, indices)


def write_rows_then_fail(x, indices):
    LOG.append("before")
    x.index_copy_(0, torch.tensor([2, 0]), torch.full((2, 2), 9.0))
    x.index_put_((torch.tensor([0, 0]), torch.tensor([0, 1])), torch.tensor(5.0), accumulate=True)
    return log_and_pick(x, indices)


def fail_while_rows_are_written(x, indices):
    LOG.append("before")
    x.index_fill_(0, indices, -1.0)
    LOG.append("after")
    return x * 2


def write_by_mask(x, indices):
    LOG.append("before")
    x[x > 2] = 0.0
    return log_and_pick(x, indices)


def write_many(x, indices):
    LOG.append("before")
    torch._foreach_add_([x[0], x[2]], 1.0)
    return log_and_pick(x, indices)


def drop_out(x, indices):
    y = torch.nn.functional.dropout(x, 0.5)
    return log_and_pick(y, indices)


def noise_and_write(x, indices):
    x.add_(torch.randn(2))
    y = torch.rand_like(x)
    return log_and_pick(x + y, indices) + torch.rand(())


FUNCTIONS = [
    add_in_place,
    write_a_view,
    write_twice,
    write_rows_then_fail,
    fail_while_rows_are_written,
    write_by_mask,
    write_many,
    drop_out,
    noise_and_write,
]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_failure_after_writes(fn):
    options = {"graphs": None, "breaks": None} if fn is write_by_mask else {"graphs": 1, "breaks": 0}
    assert_same_as_eager(fn, table(), GOOD, **options)
    assert_same_as_eager(fn, table(), BAD, raises=(IndexError, RuntimeError), **options)


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_an_entry_that_served_good_data_fails_as_eager_does(fn):
    compiled = framejit.to_static(fn)
    for run in range(3):
        outcomes = []
        for call in (fn, compiled):
            torch.manual_seed(run)
            LOG.clear()
            x = table()
            call(x, GOOD)
            with pytest.raises((IndexError, RuntimeError)) as caught:
                call(x, BAD)
            outcomes.append((x, x._version, list(LOG), torch.rand(()), str(caught.value)))
        (x, *eager), (y, *other) = outcomes
        assert torch.equal(x, y) and eager == other


def test_caught_failure_goes_on_from_what_was_written():
    def f(x, indices):
        x.add_(1)
        try:
            x = torch.index_select(x * 2, 0, indices)
        except IndexError:
            LOG.append("caught")
        return x.mul_(2)

    check(f, table(), GOOD)
    check(f, table(), BAD)


def test_handler_outside_the_function_that_fails():
    def inner(x, indices):
        x.mul_(2)
        return torch.index_select(x, 0, indices)

    def f(x, indices):
        try:
            return inner(x, indices)
        finally:
            x.add_(100)

    check(f, table(), GOOD)
    check(f, table(), BAD, raises=IndexError)


def test_batch_norm_statistics_and_a_label_out_of_range():
    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.steps = 0

        def forward(self, x, labels):
            self.steps += 1
            return torch.nn.functional.cross_entropy(self.norm(x), labels)

    torch.manual_seed(0)
    x = torch.randn(3, 4)
    states = []
    for convert in (lambda module: module, framejit.to_static):
        module = convert(Classifier())
        module(x, torch.tensor([0, 1, 2])).backward()
        with pytest.raises(IndexError):
            module(x * 2, torch.tensor([0, 1, 9]))
        states.append((module.steps, {k: v.clone() for k, v in module.state_dict().items()}))
    (eager_steps, eager), (steps, compiled) = states
    assert eager_steps == steps == 2
    for key, value in eager.items():
        assert torch.equal(value, compiled[key]), key


def test_division_of_integers_by_zero():
    def f(x, by):
        STATE.calls += 1
        x.add_(1)
        return x // by

    x = torch.tensor([4, 5])
    check(f, x, torch.tensor([1, 2]))
    check(f, x, torch.tensor([1, 0]), raises=RuntimeError)


def test_without_effects_nothing_runs_twice():
    """The error leaves the call as it came; what ran before it has happened."""

    def f(x, indices):
        x.add_(1)
        return torch.index_select(x, 0, indices)

    compiled = framejit.to_static(f)
    x = table()
    with pytest.raises(IndexError):
        compiled(x, BAD)
    assert torch.equal(x, table() + 1) and x._version == 1
