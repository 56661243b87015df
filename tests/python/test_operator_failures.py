"""Operators that only fail on the data of a call: the program sees the error, and what it did before has happened."""

import pytest
import torch

import framejit
from framejit import _C
from support.same_as_eager import assert_same_as_eager

LOG = []


def rows(*indices):
    return torch.arange(6.0).view(3, 2), torch.tensor(indices)


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *args, graphs=None, breaks=None, **options)


def test_effects_before_the_failure_happen():
    def f(table, indices):
        LOG.append("before")
        picked = torch.index_select(table * 2, 0, indices)
        LOG.append("after")
        return picked

    check(f, *rows(0, 2))
    check(f, *rows(0, 7), raises=IndexError)


def test_failure_is_caught_by_the_program():
    def f(table, indices):
        try:
            return torch.index_select(table * 2, 0, indices)
        except IndexError as error:
            LOG.append(str(error))
            return table.sum(0)

    check(f, *rows(0, 2))
    check(f, *rows(0, 7))


def test_finally_runs_after_a_failure():
    def f(table, indices):
        try:
            picked = torch.index_select(table * 2, 0, indices)
        finally:
            LOG.append("done")
        return picked

    check(f, *rows(0, 7), raises=IndexError)


def test_failure_behind_a_break():
    def f(table, indices):
        table = table * 2
        framejit.graph_break()
        LOG.append("before")
        try:
            table = torch.index_select(table, 0, indices)
        except IndexError:
            LOG.append("caught")
        return table + 1

    check(f, *rows(0, 2), cold_runs=2)
    check(f, *rows(0, 7), cold_runs=2)


def test_same_entry_serves_data_that_fails_and_data_that_does_not():
    def f(table, indices):
        LOG.append("before")
        return torch.index_select(table * 2, 0, indices)

    compiled = framejit.to_static(f)
    table, good = rows(0, 2)
    bad = torch.tensor([0, 7])
    LOG.clear()
    for indices in (good, bad, good):
        try:
            outcome = compiled(table, indices)
        except IndexError as error:
            assert indices is bad and "out of range" in str(error)
        else:
            assert torch.equal(outcome, table.mul(2)[indices])
    assert LOG == ["before"] * 3
    assert framejit.stats()["captures"] == 1
    LOG.clear()


@pytest.mark.runs_once("the runs of the operator are counted")
def test_custom_operator_that_fails_runs_once():
    calls = []
    library = torch.library.Library("framejit_failures", "DEF")
    library.define("fail(Tensor x) -> Tensor")

    def fail(x):
        calls.append(1)
        raise ValueError("on purpose")

    library.impl("fail", fail, "CPU")
    library.impl("fail", lambda x: torch.empty_like(x), "Meta")
    compiled = framejit.to_static(lambda x: torch.ops.framejit_failures.fail(x * 2) + 1)
    for count in (1, 2):
        with pytest.raises(ValueError, match="on purpose"):
            compiled(torch.ones(2))
        assert len(calls) == count


@pytest.mark.parametrize("call", [
    lambda x: torch.max_pool1d(x, 2),
    lambda x: torch.tensor_split(x, torch.tensor([1, 3]))[1],
], ids=["max_pool1d", "tensor_split"])  # fmt: skip
def test_kernel_that_looks_at_data_itself_does_not_fail(call):
    """It finds no memory in what a capture has, where the real call succeeds."""

    def f(x):
        x = x + 1
        try:
            return call(x) * 2
        except RuntimeError:
            return x * 0

    check(f, torch.arange(16.0).view(1, 4, 4))
    reasons = framejit.explain(f, torch.arange(16.0).view(1, 4, 4)).stats["break_reasons"]
    assert reasons == {"DataDependentValue": 1}


def runs_of(name, function, *args):
    with torch.profiler.profile() as profile:
        result = function(*args)
    return result, sum(event.count for event in profile.key_averages() if event.key == name)


@pytest.fixture
def meta_kernels_alone():
    before = _C._testing.set_meta_only(True)
    yield
    _C._testing.set_meta_only(before)


@pytest.mark.runs_once("the runs of the operator are counted")
@pytest.mark.parametrize("behind_a_break", [False, True])
def test_graph_that_an_operator_contradicts_is_not_run_again(meta_kernels_alone, behind_a_break):
    """The Meta kernel of angle keeps the strides of complex numbers, the operator gives a contiguous result."""

    def f(x):
        y = torch.angle(x * 2)
        if behind_a_break:
            framejit.graph_break()
        return y + 1, y.stride()

    compiled = framejit.to_static(f)
    x = torch.view_as_complex(torch.randn(3, 4, 2)).t()
    expected, once = runs_of("aten::angle", f, x)
    counted = []
    for _ in range(3):
        (result, stride), count = runs_of("aten::angle", compiled, x)
        assert torch.equal(result, expected[0]) and stride == expected[1]
        counted.append(count)
    assert counted[0] > once and counted[1:] == [once, once]
    y = torch.view_as_complex(torch.randn(3, 4, 2))  # of which both say the same
    compiled(y)
    assert torch.equal(compiled(y)[0], f(y)[0])
