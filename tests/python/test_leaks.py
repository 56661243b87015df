"""No reference is lost or kept per call: blocks of memory and reference counts."""

import gc
import itertools
import sys
import threading
import types

import pytest
import torch
from torch import nn

import framejit

CALLS = 60


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def settle(run, calls):
    for _ in range(calls):
        run()
    gc.collect()


old = []


@pytest.fixture(scope="module", autouse=True)
def what_was_there(settled_heap):
    """The collector passes over what was there before these tests; `old` is what a capture may refer to of it."""
    gc.unfreeze()
    kinds = (type, types.ModuleType, types.FunctionType)
    old.extend(thing for thing in gc.get_objects() if issubclass(type(thing), kinds))
    gc.freeze()
    yield
    old.clear()


def totals():
    """What must not grow: allocated blocks, and references to constants, classes, functions and modules and to all that these
    tests make.

    A debug build's own total of references is of no use here: torch is built for the release interpreter and does not keep
    it, so that it grows by one for each tensor that eager makes."""
    known = itertools.chain(old, gc.get_objects(), (None, True, (), "", 0))
    return sys.getallocatedblocks(), sum(map(sys.getrefcount, known))


def growth(run, most_tries=60):
    """What `CALLS` calls add, after a warm-up; what came nearest to nothing in up to `most_tries`, so that chance does not
    count, neither what is kept once nor what something older lets go.

    A leak adds to each try. What an interpreter keeps for itself settles after a few hundred calls, its tables of classes
    after some thousand where many tests ran before."""
    settle(run, 10)
    least = [sys.maxsize, sys.maxsize]
    for _ in range(most_tries):
        before = totals()
        settle(run, CALLS)
        least = [min(abs(after - first), other) for after, first, other in zip(totals(), before, least)]
        if max(least) < CALLS // 2:
            break
    return max(least)


def check_no_leak(run):
    assert growth(run) < CALLS // 2


def test_measure_itself_notices_a_leak():
    kept = []
    holder = Holder()
    assert growth(lambda: kept.append(object()), 5) >= CALLS // 2
    assert growth(lambda: kept.append(holder), 5) >= CALLS // 2
    assert growth(lambda: None) < CALLS // 2


def plus(x, n=1):
    return x + n


class Holder:
    pass


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.context = ctx
        return x * 2


def tagged(x):
    x.tag = y = x + 1
    y.of = [y]
    return y


def make_cases():
    linear = nn.Linear(3, 3)
    holder = Holder()
    holder.n, holder.items = 0, []

    def breaking(x):
        y = x.sin()
        framejit.graph_break()
        return y.cos()

    def breaking_in_loop(x):
        for i in range(3):
            x = x.sin()
            with torch.no_grad():
                framejit.graph_break()
                x = x * i
        return x

    def breaking_callee(x):
        return breaking(x + 1) * 2

    def structure(x):
        y = x + 1
        return {"a": [y, (y, x)], "b": (lambda: y), "n": 3}

    def closure(x):
        def inner(v):
            return v + x

        return inner(x), inner

    def mutating(x):
        holder.n = x.sum()
        holder.items = [x, holder]
        return x * 2

    def raising(x):
        y = x.sin()
        framejit.graph_break()
        raise ValueError(y)

    def caught(x):
        try:
            y = x.sin()
            framejit.graph_break()
            raise ValueError(y)
        except ValueError as error:
            return error.args[0].cos()

    def called(fn, *args):
        compiled = framejit.to_static(fn)
        return lambda: compiled(*args)

    x = x3()
    return {
        "plus": called(plus, x),
        "inplace": called(lambda x: x.add_(0), x),
        "module": called(lambda x: linear(x), x),
        "no_grad": called(torch.no_grad()(lambda x: linear(x)), x),
        "constant result": called(lambda x: (1, "a", None), x),
        "input result": called(lambda x: x, x),
        "structure": called(structure, x),
        "closure": called(closure, x),
        "mutating": called(mutating, x),
        "breaking": called(breaking, x),
        "breaking in loop": called(breaking_in_loop, x),
        "breaking callee": called(breaking_callee, x),
        "raising": swallowing(ValueError, called(raising, x)),
        "caught": called(caught, x),
        "item": called(lambda x: x * x.sum().item(), x),
        "autograd function": called(lambda x: Doubled.apply(x.sin()), x),
        "autograd function with gradients": called(lambda x: Doubled.apply(x.sin()), x3().requires_grad_()),
        "attribute of a tensor": called(tagged, x),
        "keywords": (lambda compiled: lambda: compiled(x, n=3))(framejit.to_static(plus)),
        "wrong arguments": swallowing(TypeError, framejit.to_static(plus)),
    }


def swallowing(expected, fn):
    def run():
        try:
            fn()
        except expected:
            pass

    return run


CASES = [
    "plus", "inplace", "module", "no_grad", "constant result", "input result", "structure", "closure", "mutating", "breaking",
    "breaking in loop", "breaking callee", "raising", "caught", "item", "autograd function", "autograd function with gradients",
    "attribute of a tensor", "keywords", "wrong arguments",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_warm_call_leaks_nothing(name):
    check_no_leak(make_cases()[name])


@pytest.mark.parametrize("name", CASES)
def test_capture_leaks_nothing(name):
    run = make_cases()[name]

    def cold():
        framejit.reset()
        run()

    if name.startswith("autograd function"):
        settle(cold, 3500)  # a class is made in each: the interpreter's tables of classes take longer to settle
    check_no_leak(cold)


def test_levels_after_ten_thousand_captures():
    """Blocks, references, threads and memory: what is kept for a capture must go with it."""
    cases = make_cases()
    runs = [cases[name] for name in CASES]

    def capture_all(times):
        for _ in range(times):
            framejit.reset()
            for run in runs:
                run()
        gc.collect()

    capture_all(20)
    framejit.reset()
    for run in runs:
        run()
    each = framejit.stats()["captures"]
    before, threads, memory = totals(), threading.active_count(), resident_megabytes()
    capture_all(10_000 // each)
    grown = [after - first for after, first in zip(totals(), before)]
    assert max(grown) < 2_000, grown  # less than one for each five captures: what settles, not what leaks
    assert threading.active_count() == threads
    assert resident_megabytes() - memory < 20


def resident_megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


def test_training_step_leaks_nothing():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    compiled = framejit.to_static(lambda x: model(x).pow(2).sum())

    def step():
        compiled(x3()).backward()
        for parameter in model.parameters():
            parameter.grad = None

    check_no_leak(step)


def test_guard_miss_leaks_nothing():
    compiled = framejit.to_static(lambda x, n: x * n)
    shapes = [torch.ones(n) for n in (1, 2, 3)]

    def run():
        for x in shapes:
            compiled(x, 2)

    check_no_leak(run)


def test_converting_a_function_leaks_nothing():
    def run():
        framejit.to_static(lambda x: x + 1)(x3())

    check_no_leak(run)


def test_converting_a_module_leaks_nothing():
    def run():
        framejit.to_static(nn.Linear(3, 3))(x3())

    check_no_leak(run)


def test_reference_counts_of_arguments_and_constants_stay():
    compiled = framejit.to_static(lambda x, items, table: (x + items[0], table["k"], None, True))
    x, items, table, value = x3(), [1, 2], {}, object()
    table["k"] = value
    compiled(x, items, table)
    things = (x, items, table, value)
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(50):
        compiled(x, items, table)
    assert [sys.getrefcount(thing) for thing in things] == before


def test_reference_counts_in_a_breaking_function_stay():
    def f(x, items):
        y = x.sin()
        for item in items:
            framejit.graph_break()
            y = y.cos() + item
        return y

    compiled = framejit.to_static(f)
    x, items = x3(), [1, 2]
    compiled(x, items)
    before = sys.getrefcount(x), sys.getrefcount(items), sys.getrefcount(f), sys.getrefcount(f.__code__)
    for _ in range(50):
        compiled(x, items)
    assert (sys.getrefcount(x), sys.getrefcount(items), sys.getrefcount(f), sys.getrefcount(f.__code__)) == before
