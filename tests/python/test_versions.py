"""The versions of tensors that the program writes: autograd compares them, so each call leaves them as eager does."""

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def by_data(x, w, v):
    w.data.mul_(0.5)
    return x + 1


def by_a_view_of_data(x, w, v):
    w.data[1:].add_(x[1:])
    return x + w.detach()


def by_data_and_back(x, w, v):
    saved = w.detach().clone()
    w.data.mul_(0.5)
    with torch.no_grad():
        y = w * x
    w.data.copy_(saved)
    return y


def by_data_behind_a_use(x, w, v):
    y = (w * w * x).sum()
    w.data.mul_(0.5)
    return y


def by_detach(x, w, v):
    w.detach().mul_(0.5)
    return x + 1


def by_both(x, w, v):
    w.data.mul_(0.5)
    with torch.no_grad():
        w.add_(1)
    return x + 1


def by_data_beside_another(x, w, v):
    w.data.mul_(0.5)
    v.add_(1)
    return x + 1


def by_a_list(x, w, v):
    with torch.no_grad():
        torch._foreach_mul_([w, v], 0.5)
    return x + 1


WRITES = [by_data, by_a_view_of_data, by_data_and_back, by_data_behind_a_use, by_detach, by_both, by_data_beside_another]
WRITES += [by_a_list]


@pytest.mark.parametrize("backend", ["aten", "native"])
@pytest.mark.parametrize("program", WRITES)
def test_versions_after_a_call(program, backend):
    def steps(run):
        w, v = torch.linspace(1, 2, 3).requires_grad_(), torch.ones(3)
        versions = []
        for _ in range(3):
            before = w._version, v._version
            run(x3(), w, v)
            versions.append((w._version - before[0], v._version - before[1]))
        return versions, w.detach().clone()

    with counting() as counted:
        versions, values = steps(framejit.to_static(program, backend=backend))
    expected_versions, expected_values = steps(program)
    assert counted.hits >= 2 and versions == expected_versions
    torch.testing.assert_close(values, expected_values)


@pytest.mark.parametrize("program", WRITES)
def test_what_the_program_writes(program):
    assert_same_as_eager(program, x3(), torch.linspace(1, 2, 3).requires_grad_(), torch.ones(3), graphs=1)


def test_history_from_before_goes_over_what_was_written_as_data():
    def gradient(run):
        w = torch.linspace(1, 2, 3).requires_grad_()
        y = (w * w).sum()
        run(x3(), w, None)
        y.backward()
        return w.grad

    compiled = framejit.to_static(by_data)
    for _ in range(2):
        assert torch.equal(gradient(compiled), gradient(by_data))


def test_data_that_shares_memory_with_what_is_written():
    def versions(run):
        w = torch.ones(4)
        view = w[:2]
        before = w._version
        run(torch.ones(4), w, view)
        return w._version - before

    compiled = framejit.to_static(by_data_beside_another)
    for _ in range(2):
        assert versions(compiled) >= versions(by_data_beside_another) == 1
