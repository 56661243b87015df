"""The comparison itself notices each kind of difference (with functions that stand for a wrong compiler)."""

import random

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []


def plus_one(x):
    return x + 1


def compare(monkeypatch, fn, wrong, *args, **options):
    """Compare `fn` with `wrong` as if `to_static(fn)` had returned it."""
    monkeypatch.setattr(framejit, "to_static", lambda _: wrong)
    monkeypatch.setattr(counts, "check_counts", lambda *args, **expected: None)
    assert_same_as_eager(fn, *args, **options)


def wrong_value(x):
    return (x + 1) * (1 + 1e-7)


def wrong_dtype(x):
    return (x + 1).double()


def wrong_strides(x):
    return (x + 1).t().contiguous().t()


def wrong_requires_grad(x):
    return (x + 1).requires_grad_()


def wrong_type(x):
    return [x + 1]


def wrong_printed(x):
    print("noise")
    return x + 1


def wrong_random(x):
    random.random()
    return x + 1


def wrong_torch_random(x):
    torch.rand(1)
    return x + 1


def wrong_mutation(x):
    x.add_(0)
    return x + 1


def wrong_grad_mode(x):
    torch.set_grad_enabled(False)
    return x.detach() + 1


def wrong_exception(x):
    raise ValueError("no")


@pytest.mark.parametrize(
    "wrong",
    [wrong_value, wrong_dtype, wrong_strides, wrong_requires_grad, wrong_type, wrong_printed, wrong_random]
    + [wrong_torch_random, wrong_mutation, wrong_grad_mode, wrong_exception],
)
def test_difference_is_noticed(monkeypatch, wrong):
    with torch.set_grad_enabled(True):
        with pytest.raises(AssertionError, match="the compiled run differs from eager"):
            compare(monkeypatch, plus_one, wrong, torch.arange(6.0).reshape(2, 3))


def test_equal_functions_pass(monkeypatch):
    compare(monkeypatch, plus_one, lambda x: 1 + x, torch.arange(6.0))


def test_lost_identity_is_noticed(monkeypatch):
    def twice(x):
        y = [x]
        return y, y

    with pytest.raises(AssertionError, match="same object"):
        compare(monkeypatch, twice, lambda x: ([x], [x]), torch.ones(2))


def test_lost_view_relation_is_noticed(monkeypatch):
    with pytest.raises(AssertionError, match="storage"):
        compare(monkeypatch, lambda x: x.view(-1), lambda x: x.clone().view(-1), torch.ones(2, 2))


def test_lost_global_write_is_noticed(monkeypatch):
    def append(x):
        LOG.append(1)
        return x

    def wrong(x):
        return x

    with pytest.raises(AssertionError, match="global LOG"):
        compare(monkeypatch, append, wrong, 1)
    assert LOG == []


def test_wrong_line_is_noticed(monkeypatch):
    def fails(x):
        raise ValueError("no")

    def fails_elsewhere(x):
        raise ValueError("no")

    with pytest.raises(AssertionError, match=r"raised at"):
        compare(monkeypatch, fails, fails_elsewhere, 1, raises=ValueError)


def test_everything_mutated_is_put_back(monkeypatch):
    class Holder:
        total = 0

    holder, items, table, x = Holder(), [1], {"a": 1}, torch.ones(3)
    cell = 0

    def mutate(x, items, table):
        nonlocal cell
        cell += 1
        holder.value = 3
        Holder.total += 1
        items.append(2)
        table["b"] = table.pop("a")
        x.mul_(2).unsqueeze_(0)
        LOG.extend([1, 2])
        return x

    compare(monkeypatch, mutate, mutate, x, items, table)
    assert (cell, items, table, LOG, vars(holder), Holder.total) == (0, [1], {"a": 1}, [], {}, 0)
    assert x.shape == (3,) and x.tolist() == [1, 1, 1]


def test_a_switch_left_on_does_not_reach_the_next_run(monkeypatch):
    """As a generator that is dropped inside of `with torch.enable_grad()` leaves it."""

    def leaves(x):
        doubled = x * 2
        torch.set_grad_enabled(True)
        return doubled

    with torch.no_grad():
        compare(monkeypatch, leaves, leaves, torch.ones(3, requires_grad=True))
        assert not torch.is_grad_enabled()


def test_program_that_raises_without_saying_so_fails(monkeypatch):
    def fails(x):
        raise ValueError("unexpected")

    with pytest.raises(ValueError, match="unexpected"):
        compare(monkeypatch, fails, fails, 1)


def test_listed_test_is_told_from_one_whose_counts_hold(monkeypatch):
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "some.py::test_listed (call)")
    monkeypatch.setattr(counts, "COUNTS_LEFT_OPEN", {"some.py::test_listed": "a reason"})
    assert counts.left_open_without_need("some.py::test_listed")
    assert not counts.left_open_without_need("some.py::test_other")
    with counts.counting() as counted:
        pass
    counts.check_counts(counted, captures=1)  # wrong, and listed
    assert not counts.left_open_without_need("some.py::test_listed")
    monkeypatch.setattr(counts, "COUNTS_LEFT_OPEN", {})
    with pytest.raises(AssertionError, match="captures: expected 1, got 0"):
        counts.check_counts(counted, captures=1)
