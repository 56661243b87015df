"""Threads: each has its own capture, grad mode and hook state; all get eager's results."""

import random
import sys
import threading
import time

import pytest
import torch

import framejit
from support import counts


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def in_threads(number, target):
    """Run `target(i)` in that many threads at once; raises the first exception of any."""
    errors = []
    barrier = threading.Barrier(number)

    def run(i):
        try:
            barrier.wait(30)
            target(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def plus(x, n):
    return (x + n).sin() * n


def breaking(x, n):
    y = (x + n).sin()
    if y.sum() > 100:
        return y
    y = y * n
    framejit.graph_break()
    return y.cos()


def test_cold_calls_from_many_threads():
    compiled = framejit.to_static(plus)
    in_threads(8, lambda i: [check(compiled, plus, i) for _ in range(20)])


def check(compiled, fn, n):
    assert torch.equal(compiled(x3(), n), fn(x3(), n))


def test_warm_calls_from_many_threads():
    compiled = framejit.to_static(plus)
    check(compiled, plus, 3)
    with counts.expect_counts("warm", captures=0, misses=0):
        in_threads(8, lambda i: [check(compiled, plus, 3) for _ in range(200)])


def test_breaks_in_many_threads():
    compiled = framejit.to_static(breaking)
    in_threads(6, lambda i: [check(compiled, breaking, i % 3) for _ in range(50)])


def test_one_function_with_another_shape_in_each_thread():
    compiled = framejit.to_static(lambda x: x * x.shape[0])
    in_threads(6, lambda i: [assert_equal(compiled(torch.ones(i + 1)), torch.ones(i + 1) * (i + 1)) for _ in range(50)])


def assert_equal(got, expected):
    assert torch.equal(got, expected)


def test_grad_mode_is_per_thread():
    compiled = framejit.to_static(lambda x: x * 2)

    def run(i):
        x = x3().requires_grad_()
        with torch.set_grad_enabled(i % 2 == 0):
            for _ in range(50):
                assert compiled(x).requires_grad == (i % 2 == 0)

    in_threads(6, run)


def test_exceptions_stay_in_their_thread():
    def f(x, n):
        y = x.sin()
        framejit.graph_break()
        if n % 2:
            raise ValueError(n)
        return y

    compiled = framejit.to_static(f)

    def run(i):
        for _ in range(50):
            try:
                compiled(x3(), i)
                assert i % 2 == 0
            except ValueError as error:
                assert error.args == (i,)

    in_threads(6, run)


def test_reset_while_others_call():
    compiled = framejit.to_static(breaking)

    def run(i):
        for _ in range(30):
            if i == 0:
                framejit.reset()
            check(compiled, breaking, i % 2)

    in_threads(4, run)


def test_plain_threads_are_not_captured():
    compiled = framejit.to_static(breaking)
    stop = []

    def plain():
        total = 0
        while not stop:
            total += sum(plain_helper(i) for i in range(100))

    thread = threading.Thread(target=plain)
    thread.start()
    try:
        for i in range(50):
            check(compiled, breaking, i % 3)
    finally:
        stop.append(1)
        thread.join(30)
    assert not thread.is_alive()


def plain_helper(i):
    return i + 1


def test_break_that_waits_for_another_thread():
    ready, go = threading.Event(), threading.Event()

    def waiting(x):
        y = x.sin()
        ready.set()
        go.wait(30)
        return y.cos()

    compiled = framejit.to_static(waiting)
    results = []
    thread = threading.Thread(target=lambda: results.append(compiled(x3())))
    thread.start()
    assert ready.wait(30)
    other = framejit.to_static(plus)
    check(other, plus, 2)
    go.set()
    thread.join(30)
    assert torch.equal(results[0], x3().sin().cos())


def test_tiny_switch_interval():
    compiled = framejit.to_static(breaking)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, lambda i: [check(compiled, breaking, i % 2) for _ in range(20)])
    finally:
        sys.setswitchinterval(interval)


STRESS_SECONDS = 5
LABELS = [torch.tensor([0, 2]), torch.tensor([0, 7])]


class Totals:
    def __init__(self):
        self.calls = 0


def counting(x, indices, totals):
    totals.calls += 1
    x.add_(1)
    try:
        return torch.index_select(x, 0, indices)
    except IndexError:
        return x * totals.calls


def raises(x, n):
    y = x * n
    if n > 2:
        raise ValueError(n)
    return y


def test_everything_at_once():
    """Cold and warm calls, guard misses, breaks, exceptions, failing operators, resets, new functions and reports."""
    shared = {fn: framejit.to_static(fn) for fn in (plus, breaking, raises)}
    counted = framejit.to_static(counting)

    def call_counting(n):
        eager, compiled = (x3(), Totals()), (x3(), Totals())
        for _ in range(3):
            expected = counting(eager[0], LABELS[n % 2], eager[1])
            assert torch.equal(counted(compiled[0], LABELS[n % 2], compiled[1]), expected)
        assert compiled[1].calls == 3 and torch.equal(compiled[0], eager[0])

    def call_raises(n):
        for fn in (raises, shared[raises]):
            try:
                assert torch.equal(fn(x3(), n), x3() * n)
            except ValueError as error:
                assert n > 2 and error.args == (n,)
            else:
                assert n <= 2

    actions = [
        lambda n: check(shared[plus], plus, n),
        lambda n: check(shared[breaking], breaking, n % 3),
        lambda n: check(framejit.to_static(lambda x, k: x * k - 1), lambda x, k: x * k - 1, n),
        call_counting,
        call_raises,
        lambda n: assert_equal(shared[plus](torch.ones(n + 1), n), plus(torch.ones(n + 1), n)),
        lambda n: framejit.reset() if n == 0 else framejit.stats(),
        lambda n: [shared[fn].reset() for fn in shared] if n == 1 else str(shared[plus].graphs),
        lambda n: plus(x3().requires_grad_(), n).sum().backward(),
    ]
    until = time.monotonic() + STRESS_SECONDS
    done = [0] * 6

    def run(i):
        numbers = random.Random(i)
        while time.monotonic() < until:
            numbers.choice(actions)(numbers.randrange(5))
            done[i] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(6, run)
    finally:
        sys.setswitchinterval(interval)
    assert all(done) and framejit.stats()["fallbacks"] <= 6, (done, framejit.stats())


class Owner:
    pass


@pytest.mark.runs_once("what other threads change meanwhile counts as the call's own mutation")
def test_attribute_replaced_while_a_graph_reads_it():
    def work(x, owner):
        for _ in range(20):
            x = (x * 0.5).abs()
        return x + owner.weight

    owner, x = Owner(), torch.ones(50_000)
    owner.weight = torch.ones(50_000)
    compiled = framejit.to_static(work)
    expected = work(x, owner)
    until = time.monotonic() + 2

    def run(i):
        while time.monotonic() < until:
            if i == 0:
                assert torch.equal(compiled(x, owner), expected)
            else:
                owner.weight = torch.ones(50_000)
                torch.full((50_000,), 7.0)  # takes the memory that came free

    in_threads(3, run)
    assert framejit.stats()["hits"] > 0


def test_thread_started_by_captured_code():
    def f(x):
        out = []
        thread = threading.Thread(target=lambda: out.append(x.exp()))
        thread.start()
        thread.join()
        return out[0].sin()

    compiled = framejit.to_static(f)
    for _ in range(2):
        assert torch.equal(compiled(x3()), x3().exp().sin())


def test_backward_in_several_threads():
    weight = torch.ones(3, requires_grad=True)
    compiled = framejit.to_static(lambda x: (x * weight).exp())

    def run(i):
        for _ in range(20):
            (gradient,) = torch.autograd.grad(compiled(x3()).sum(), weight)
            assert torch.equal(gradient, x3() * x3().exp())

    in_threads(4, run)


def test_daemon_thread_at_work_while_main_goes_on():
    compiled = framejit.to_static(plus)
    stop = []

    def work():
        while not stop:
            compiled(x3(), 2)
            time.sleep(0)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for n in range(10):
        check(compiled, plus, n)
    stop.append(1)
    thread.join(30)
