"""FRAMEJIT_SHADOW=N: one call in N is made eagerly as well, and compared; the program sees the compiled run alone."""

import collections
import contextlib
import contextvars
import os
import random
import subprocess
import sys
import threading
import traceback
import warnings

import pytest
import torch
import torch.utils._python_dispatch

import framejit
from framejit import _C
from framejit._shadow.compare import compare
from framejit._shadow.describe import Describer, tensor_bytes
from framejit._shadow.snapshot import Snapshot
from support.counts import counting

LOG = []
COUNT = 0
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


@pytest.fixture(autouse=True)
def shadow_every_call():
    with shadowing(1):
        yield


@contextlib.contextmanager
def shadowing(n):
    before = int(os.environ.get("FRAMEJIT_SHADOW") or 0)
    _C.set_shadow(n, compare)
    try:
        yield
    finally:
        _C.set_shadow(before, compare)


def totals():
    return framejit.stats()["shadowed"], framejit.stats()["unshadowed"]


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def doubling(module, inputs):
    """A back end that gives wrong values."""
    return lambda *args: tuple(output * 2 for output in module.forward(*args))


def test_right_function_passes_and_only_the_compiled_run_counts():
    compiled = framejit.to_static(lambda x: x.sin() + 1)
    with counting() as counted:
        for _ in range(3):
            assert torch.equal(compiled(x3()), x3().sin() + 1)
    assert totals() == (3, 0)
    assert (counted.captures, counted.misses, counted.hits, counted.fallbacks) == (1, 1, 2, 0)


def test_wrong_result_is_found_and_named():
    def wrong(x):
        return x + 1

    with pytest.raises(framejit.ShadowError) as raised:
        framejit.to_static(wrong, backend=doubling)(x3())
    text = str(raised.value)
    assert "test_wrong_result_is_found_and_named.<locals>.wrong (" in text and "test_shadow.py:" in text
    assert "\n-result: " in text and "\n+result: " in text


def test_wrong_mutation_is_found():
    def append(x, items):
        items.append(x * 3)

    items = []
    with pytest.raises(framejit.ShadowError, match=r"\+args\[1\]\[0\]"):
        framejit.to_static(append, backend=doubling)(x3(), items)


def test_effects_are_those_of_one_call():
    class Holder:
        total = 0

    holder, cell = Holder(), 0

    def f(x, items, table, *, key):
        nonlocal cell
        global COUNT
        COUNT += 1
        cell += 1
        holder.value = cell
        Holder.total += 1
        items.append(x + 1)
        table[key] = table.pop("a")
        x.mul_(2)
        LOG.append(COUNT)
        return x

    compiled = framejit.to_static(f)
    global COUNT
    COUNT = 0
    LOG.clear()
    for calls in (1, 2):
        x, items, table = x3(), [1], {"a": 1}
        assert compiled(x, items, table, key="k") is x
        assert torch.equal(x, x3() * 2) and len(items) == 2 and table == {"k": 1}
        assert (COUNT, cell, holder.value, Holder.total, len(LOG)) == (calls,) * 5
    assert totals() == (2, 0)


def test_gradients_and_parameters_are_those_of_one_call():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    framejit.to_static(model)
    for calls in (1, 2):
        model(torch.ones(2, 3)).sum().backward()
        assert model[1].num_batches_tracked.item() == calls
    assert model[0].weight.grad is not None
    assert totals() == (2, 0)


def test_random_numbers_are_those_of_one_call():
    compiled = framejit.to_static(lambda x: x + torch.rand(3) + random.random())
    torch.manual_seed(1), random.seed(1)
    first = compiled(x3()), torch.rand(1), random.random()
    torch.manual_seed(1), random.seed(1)
    with framejit.enable_to_static_guard(False):
        second = compiled(x3()), torch.rand(1), random.random()
    assert torch.equal(first[0], second[0]) and first[1:] == second[1:]
    assert totals() == (1, 0)


def test_output_and_context_variables_are_those_of_one_call(capsys):
    VARIABLE.set(1)

    def f(x):
        print("once")
        VARIABLE.set(VARIABLE.get() + 1)
        return x + VARIABLE.get()

    assert framejit.to_static(f)(x3()).tolist() == (x3() + 2).tolist()
    assert VARIABLE.get() == 2
    assert capsys.readouterr().out == "once\n"
    assert totals() == (1, 0)


def test_warning_is_shown_once():
    def f(x):
        warnings.warn("careful")
        return x + 1

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        framejit.to_static(f)(x3())
        assert len(shown) == 1
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            framejit.to_static(f)(x3())
    assert totals() == (2, 0)


class CountingFunctions(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        LOG.append(function.__name__)
        return function(*args, **(kwargs or {}))


class CountingOperators(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        LOG.append(operator.__name__)
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [CountingFunctions, CountingOperators])
def test_call_under_a_mode_is_not_shadowed(mode):
    def f(x):
        return x.sin()

    x = x3()
    LOG.clear()
    with mode():
        framejit.to_static(f)(x)
    assert len(LOG) == 1
    assert totals() == (0, 1)


def test_exception_is_the_programs_own():
    def inner(x, table):
        return x * table["missing"]

    def f(x, table):
        LOG.append(1)
        return inner(x + 1, table)

    LOG.clear()
    for _ in range(2):
        with pytest.raises(KeyError, match="missing") as raised:
            framejit.to_static(f)(x3(), {})
        names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert names[1:] == ["f", "inner"]
    assert LOG == [1, 1]
    assert totals() == (2, 0)


def test_break_in_a_full_graph_is_not_a_difference():
    def f(x):
        framejit.graph_break()
        return x + 1

    with pytest.raises(framejit.GraphBreakError):
        framejit.to_static(f, full_graph=True)(x3())


def test_one_call_in_n():
    compiled, other = framejit.to_static(lambda x: x + 1), framejit.to_static(lambda x: x + 2)
    with shadowing(3):
        for calls in range(1, 8):
            compiled(x3())
            assert totals()[0] == (calls + 2) // 3
        other(x3())
        assert totals()[0] == 4
    with shadowing(0):
        other(x3())
    assert totals()[0] == 4


def test_calls_inside_a_shadowed_one_are_not_shadowed():
    inner = framejit.to_static(lambda x: x * 2)

    def outer(x):
        framejit.graph_break()
        return inner(x) + 1

    compiled = framejit.to_static(outer)
    for calls in (1, 2):
        assert torch.equal(compiled(x3()), x3() * 2 + 1)
        assert totals() == (calls, 0)
    inner(x3())
    assert totals() == (3, 0)


def numbers():
    yield from range(10)


def test_lock_is_not_shadowed():
    def f(x, event):
        event.set()
        return x + 1

    framejit.to_static(f)(x3(), threading.Event())
    assert totals() == (0, 1)


def test_recursion_that_does_not_end_is_not_compared():
    def forever(x):
        return forever(x + 1)

    with pytest.raises(RecursionError):
        framejit.to_static(forever)(x3())
    assert totals() == (0, 1)


@pytest.mark.parametrize("make", [lambda: iter([1, 2, 3]), numbers, lambda: open(__file__)], ids=["iterator", "generator", "file"])
def test_what_cannot_be_put_back_is_not_shadowed(make):
    def f(x, items):
        next(items)
        return x + 1

    items = make()
    assert torch.equal(framejit.to_static(f)(x3(), items), x3() + 1)
    assert totals() == (0, 1)
    if hasattr(items, "close"):
        items.close()


class Counted:
    hashed = 0

    def __hash__(self):
        Counted.hashed += 1
        return 1


@pytest.mark.parametrize("key", [Counted(), (1, Counted())], ids=["object", "tuple"])
def test_ordered_dict_whose_keys_hash_by_python_code_is_not_shadowed(key):
    ordered = collections.OrderedDict([(key, 2)])
    Counted.hashed = 0
    assert framejit.to_static(lambda x: (x + 1, ordered[key]))(x3())[1] == 2
    assert (Counted.hashed, totals()) == (1, (0, 1))


def test_changed_history_leaves_the_eager_run():
    def f(y):
        y.mul_(3)
        return y

    x = torch.ones(2, requires_grad=True)
    y = x * 1
    assert framejit.to_static(f)(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert totals() == (0, 1)


def test_backward_through_what_was_there_before_is_not_shadowed():
    x = torch.ones(2, requires_grad=True)
    framejit.to_static(lambda loss: loss.backward())((x * 2).sum())
    assert x.grad.tolist() == [2, 2]
    assert totals() == (0, 1)


def test_object_that_cannot_be_looked_at_is_not_shadowed():
    class Closed:
        @property
        def __dict__(self):
            raise RuntimeError("closed")

    assert torch.equal(framejit.to_static(lambda x, closed: x + 1)(x3(), Closed()), x3() + 1)
    assert totals() == (0, 1)


def test_methods_and_modules_are_shadowed():
    class Scale:
        def __init__(self):
            self.factor = 1

        @framejit.to_static
        def __call__(self, x):
            self.factor += 1
            return x * self.factor

    scale = Scale()
    assert [scale(x3())[2].item() for _ in range(3)] == [4, 6, 8]
    assert totals() == (3, 0)


def run_python(program, **env):
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    done = subprocess.run(
        [sys.executable, "-c", program], env=dict(os.environ, PYTHONPATH=path, **env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.returncode, done.stdout.decode()


PROGRAM = """
import framejit, torch
f = framejit.to_static(lambda x: x + 1)
for _ in range(5):
    f(torch.ones(2))
print(framejit.stats()["shadowed"])
"""


def test_what_ends_when_a_run_is_put_back_leaves_nothing_behind():
    log, held = [], {}

    class Ending:
        def __del__(self):
            log.append("ended")
            held["ended"] = 1

    def fn():
        log.append(Ending())
        held["object"] = Ending()

    snapshot = Snapshot(fn)
    fn()
    snapshot.restore()
    assert (log, held) == ([], {})


def test_containers_with_methods_of_their_own_are_read_without_them():
    called = []

    class Own(dict):
        def keys(self):
            called.append("keys")
            return dict.keys(self)

        items = values = __iter__ = clear = update = keys

    own = Own(a=1)
    snapshot = Snapshot(lambda: own)
    own["b"] = 2
    assert Describer(snapshot.versions).describe("own", own) is None
    snapshot.restore()
    assert (list(dict.items(own)), called) == ([("a", 1)], [])


BACKWARD_OF_A_TEXT = """
import torch, framejit
w = torch.ones(3, requires_grad=True)
framejit.to_static(lambda x: (w * x).sum().backward())(torch.arange(3.0))
assert framejit.stats()["shadowed"] == 1
assert torch.equal(w.grad, torch.arange(3.0)), w.grad
"""


def test_globals_of_a_program_that_is_a_text_are_put_back():
    command = [sys.executable, "-c", BACKWARD_OF_A_TEXT]
    subprocess.run(command, check=True, timeout=120, env=dict(os.environ, FRAMEJIT_SHADOW="1"))


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_what_hooks_of_a_tensor_do_is_put_back(register):
    seen = []
    w = torch.ones(3, requires_grad=True)
    getattr(w, register)(lambda tensor: seen.append(tensor.clone()))
    framejit.to_static(lambda x: (w * x).sum().backward())(x3())
    assert totals() == (1, 0) and len(seen) == 1


def test_hooks_of_a_node_are_not_seen():
    seen = []
    w = torch.ones(3, requires_grad=True)
    node = w.view_as(w).grad_fn.next_functions[0][0]
    node.register_hook(lambda *gradients: seen.append(gradients))
    framejit.to_static(lambda x: (w * x).sum().backward())(x3())
    assert totals() == (0, 1) and len(seen) == 1


def test_environment_switches_it_on():
    assert run_python(PROGRAM, FRAMEJIT_SHADOW="2") == (0, "3\n")


def test_environment_must_be_a_number():
    code, text = run_python(PROGRAM, FRAMEJIT_SHADOW="often")
    assert code != 0 and "FRAMEJIT_SHADOW must be a number of calls, got 'often'" in text


def test_description_of_tensors_of_which_plain_torch_has_no_bytes():
    column = torch.arange(3.0).as_strided((3, 1), (1, 7))  # contiguous() keeps the stride of the one column
    assert tensor_bytes(column) == torch.arange(3.0).numpy().tobytes()
    zeros = torch._efficientzerotensor((2,))
    assert tensor_bytes(zeros) == bytes(8)
    assert tensor_bytes(torch.tensor([1 + 2j]).conj()) == torch.tensor([1 - 2j]).numpy().tobytes()
