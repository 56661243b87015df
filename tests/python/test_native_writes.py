"""Back end native: operators in place inside of kernels."""

import pytest
import torch

import framejit
from support.native import kernels_asked_for, needs_kernels

pytestmark = needs_kernels


def same(found, expected):
    assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert found._version == expected._version
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def check(fn, make, *, kernels, calls=2):
    """`make()` gives the arguments of a call: results, arguments and their versions are as in eager."""
    before = kernels_asked_for()
    compiled = framejit.to_static(fn, backend="native")
    for _ in range(calls):
        expected, found = make(), make()
        results = fn(*expected), compiled(*found)
        for one, other in zip(expected, found):
            same(other, one)
        pairs = zip(*results) if isinstance(results[0], tuple) else [results]
        for one, other in pairs:
            same(other, one)
    assert kernels_asked_for() - before == kernels
    assert framejit.stats()["captures"] == 1 and framejit.stats()["hits"] == calls - 1
    return compiled


def test_a_step_of_adam_is_one_kernel():
    def step(p, g, m, v):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        return p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)

    def make():
        torch.manual_seed(0)
        return [torch.rand(5, 7) + 0.1 for _ in range(4)]

    check(step, make, kernels=1)
    assert framejit.stats()["breaks"] == 0


def test_what_is_written_is_read_afterwards():
    def f(x, y):
        a = x * 2
        x.add_(y)
        b = x * a
        x.copy_(b)
        x.sub_(1)
        return a, b, torch.sin(x)

    check(f, lambda: [torch.arange(6.0), torch.full((6,), 0.5)], kernels=1)


def test_results_made_inside_are_written_before_they_are_stored():
    def f(x):
        a = torch.sin(x)
        b = a + 1
        a.mul_(2).add_(b)
        return a, b

    check(f, lambda: [torch.arange(6.0)], kernels=1)


def test_a_view_made_before_sees_the_write():
    def f(x):
        whole = torch.sin(x) * 2
        row = whole[0]
        whole.add_(1).mul_(3)
        first = row * 2 + 1
        row.zero_()
        return whole * 2 + 1, first

    check(f, lambda: [torch.arange(6.0).view(2, 3)], kernels=4)


def test_an_operator_between_sees_the_first_write_and_not_the_second():
    def f(x, w):
        x.mul_(2).add_(1)
        y = torch.mm(x, w)
        x.mul_(3).sub_(2)
        return y

    check(f, lambda: [torch.arange(4.0).view(2, 2), torch.eye(2)], kernels=2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_dtypes(dtype):
    def f(x, y):
        x.copy_(y)
        x.logical_and_(y) if dtype == torch.bool else x.mul_(y)
        return x.fill_(True) if dtype == torch.bool else x.add_(3)

    check(f, lambda: [torch.ones(3, 4, dtype=dtype), torch.arange(12).view(3, 4).to(dtype)], kernels=1)


def test_another_dtype_than_what_is_written_is_left_to_the_operator():
    def f(x, y):
        return x.add_(y).mul_(y)

    check(f, lambda: [torch.ones(4), torch.arange(4.0, dtype=torch.float64)], kernels=0)


def parts(x, y):
    return x[:8], y[4:]


def over_numpy(x, y):
    return torch.from_numpy(x.numpy()), torch.from_numpy(y.numpy())


@pytest.mark.parametrize("views", [parts, over_numpy, lambda x, y: (x, y.detach())])
def test_arguments_over_one_memory_are_seen_by_each_other(views):
    def f(x, y):
        a = torch.sin(y) + 1
        x.mul_(2).add_(1)
        return a, torch.sin(y) + 1

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for overlap in (False, True, True, False):

        def make():
            x, y = torch.arange(12.0), torch.ones(12)
            return views(x, x if overlap else y)

        expected, found = make(), make()
        for one, other in zip((*f(*expected), *expected), (*compiled(*found), *found)):
            torch.testing.assert_close(other, one)
    assert framejit.stats()["captures"] == 1 and framejit.stats()["hits"] == 3
    assert kernels_asked_for() - before == 3


def test_a_negative_view_is_written_through():
    def f(x):
        return x.mul_(3).add_(1)

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        expected, found = torch.arange(4.0), torch.arange(4.0)
        one, other = f(torch._neg_view(expected)), compiled(torch._neg_view(found))
        assert one.is_neg() and other.is_neg()
        torch.testing.assert_close(other, one)
        torch.testing.assert_close(found, expected)
    assert kernels_asked_for() > before


def test_what_was_written_before_a_failure_is_taken_back():
    def f(x, index):
        try:
            x.mul_(2).add_(1)
            return x[index] * 2 + 1
        except IndexError:
            return x

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for index in (torch.tensor([1]), torch.tensor([9]), torch.tensor([0])):
        expected, found = torch.arange(4.0), torch.arange(4.0)
        same(compiled(found, index), f(expected, index))
        same(found, expected)
    assert kernels_asked_for() > before


def test_gradients_flow_through_writes():
    def f(x):
        y = x * 2
        y.mul_(torch.sin(x)).add_(1)
        return torch.tanh(y)

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    for _ in range(2):
        gradients = []
        for fn in (f, compiled):
            x = torch.arange(6.0, requires_grad=True)
            fn(x).sum().backward()
            gradients.append(x.grad)
        same(gradients[1], gradients[0])
    assert kernels_asked_for() > before


def test_what_was_written_before_an_error_that_leaves_the_call_has_been_written():
    def f(x, table, index):
        x.mul_(2)
        y = table[index] * 2
        x.add_(1)
        return x * y

    before = kernels_asked_for()
    compiled = framejit.to_static(f, backend="native")
    table = torch.arange(4.0)
    for index in (torch.tensor([1]), torch.tensor([9]), torch.tensor([0])):
        expected, found = torch.arange(4.0), torch.arange(4.0)
        errors = []
        for fn, x in ((f, expected), (compiled, found)):
            try:
                fn(x, table, index)
            except IndexError as error:
                errors.append(str(error))
        assert errors in ([], errors[:1] * 2)
        same(found, expected)
    assert kernels_asked_for() > before


def test_what_is_filled_for_nobody_is_no_kernel():
    """A group of two nodes that reads nothing, and what it writes is read by nobody."""

    def f(x):
        x.sin().fill_(2)
        return (x + 1).sigmoid()

    check(f, lambda: [torch.arange(6.0)], kernels=1)


def test_what_a_kernel_of_rows_makes_is_written_in_it():
    def f(x):
        y = torch.softmax(x * 2, -1)
        kept = y.clone()
        y.add_(x.sum((0, 1), keepdim=True)).sub_(1)
        return y, kept

    check(f, lambda: [torch.arange(24.0).view(2, 3, 4)], kernels=1)

    def g(x):
        y = x * 2 - x.amax(-1, keepdim=True)
        before = y.clone()
        return y.sigmoid_().mul_(x.sum(-1, keepdim=True)), before

    framejit.reset()
    check(g, lambda: [torch.arange(24.0).view(2, 3, 4)], kernels=1)


def test_rows_of_what_was_written_are_another_kernel():
    """A pass over a row would read what an earlier one has left there."""

    def f(x):
        x.mul_(2).add_(1)
        return torch.softmax(x, -1) * 2

    check(f, lambda: [torch.arange(24.0).view(4, 6)], kernels=2)


def test_a_copy_into_another_layout_is_left_to_the_operator():
    def f(x):
        return torch.clone(x.t(), memory_format=torch.contiguous_format) * 2 + 1

    check(f, lambda: [torch.arange(24.0).view(4, 6)], kernels=1)
