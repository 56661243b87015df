"""Bad and odd input: the error or the result that eager gives, never a crash."""

import asyncio
import inspect
import subprocess
import sys

import pytest
import torch

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager
from support.source import define_function


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def plus(x, n=1, *, scale=2):
    return (x + n) * scale


@pytest.mark.parametrize(
    "thing", [3, "text", None, [1], torch.ones(2), object()], ids=lambda thing: type(thing).__name__
)
def test_something_that_is_not_callable(thing):
    if thing is None:
        pytest.skip("to_static(None) is the decorator with arguments")
    with pytest.raises(TypeError) as caught:
        framejit.to_static(thing)
    counts.check_text("the message", str(caught.value), type(thing).__name__)


def test_unknown_option():
    with pytest.raises(TypeError):
        framejit.to_static(plus, no_such_option=1)


@pytest.mark.parametrize(
    "args, kwargs",
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"unknown": 2}), ((1, 2), {"n": 3}), ((), {"n": 3})],
    ids=repr,
)
def test_wrong_arguments_give_eagers_error(args, kwargs):
    compiled = framejit.to_static(plus)
    with pytest.raises(TypeError) as eager:
        plus(*args, **kwargs)
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            compiled(*args, **kwargs)
        assert str(caught.value) == str(eager.value)
    assert torch.equal(compiled(x3()), plus(x3()))


def test_wrong_arguments_to_a_module():
    plain = torch.nn.Linear(3, 3)
    with pytest.raises(TypeError) as eager:
        plain(x3(), 1)
    model = framejit.to_static(torch.nn.Linear(3, 3))
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            model(x3(), 1)
        assert str(caught.value) == str(eager.value)


def test_wrong_arguments_to_a_method():
    class Model:
        def run(self, x):
            return x

    eager = Model().run

    class Compiled:
        run = framejit.to_static(Model.run)

    with pytest.raises(TypeError) as expected:
        eager()
    with pytest.raises(TypeError) as caught:
        Compiled().run()
    assert str(caught.value) == str(expected.value)


def test_infinite_recursion_is_a_recursion_error():
    def forever(x):
        return forever(x + 1)

    compiled = framejit.to_static(forever)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        for _ in range(2):
            with pytest.raises(RecursionError):
                compiled(x3())
    finally:
        sys.setrecursionlimit(limit)
    assert torch.equal(framejit.to_static(plus)(x3()), plus(x3()))


def test_infinite_recursion_with_a_break():
    def forever(x):
        framejit.graph_break()
        return forever(x + 1)

    compiled = framejit.to_static(forever)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        with pytest.raises(RecursionError):
            compiled(x3())
    finally:
        sys.setrecursionlimit(limit)


def test_recursion_of_the_compiled_function_itself():
    @framejit.to_static
    def power(x, n):
        if n == 0:
            return x
        return power(x, n - 1) * 2

    for n in (0, 3, 10):
        assert torch.equal(power(x3(), n), x3() * 2**n)


def test_recursion_by_a_value_in_a_tensor():
    def halve(x):
        if x.abs().sum() < 1:
            return x
        return halve(x / 2) + 1

    assert_same_as_eager(halve, x3(), graphs=at_least(1), breaks=at_least(1))


def test_very_deep_call_chain():
    depth = 400
    source = "def f0(x):\n    return x + 1\n" + "".join(
        f"def f{i}(x):\n    return f{i - 1}(x)\n" for i in range(1, depth)
    )
    fn = define_function(source, f"f{depth - 1}")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)
    try:
        assert_same_as_eager(fn, x3(), graphs=None, breaks=None)
    finally:
        sys.setrecursionlimit(limit)


def test_deep_chain_with_a_break_at_the_bottom():
    source = "def f0(x):\n    framejit.graph_break()\n    return x + 1\n" + "".join(
        f"def f{i}(x):\n    return f{i - 1}(x * 1) * 1\n" for i in range(1, 50)
    )
    assert_same_as_eager(
        define_function(source, "f49", framejit=framejit), x3(), graphs=at_least(2), breaks=at_least(1)
    )


def test_huge_loop():
    def f(x):
        total = 0
        for i in range(200_000):
            total += i & 3
        return x + total

    assert_same_as_eager(f, x3(), graphs=None, breaks=None, miss=None)


def test_huge_loop_with_tensor_operators():
    def f(x):
        for _ in range(5_000):
            x = x * 1.0001
        return x

    assert_same_as_eager(f, x3(), graphs=None, breaks=None, miss=None)


def test_loop_that_breaks_in_every_iteration():
    def f(x):
        total = 0.0
        for i in range(200):
            y = x * i
            total += y.sum().tolist()
            x = y.sin()
        return x, total

    assert_same_as_eager(f, x3(), graphs=at_least(2), breaks=at_least(1), miss=None)


def test_very_long_function():
    source = "def f(x):\n" + "".join(f"    x = x + {i % 7}\n" for i in range(3000)) + "    return x\n"
    assert_same_as_eager(define_function(source), x3(), graphs=None, breaks=None, miss=None)


def test_generator_function():
    def numbers(x):
        for i in range(3):
            yield x + i

    compiled = framejit.to_static(numbers)
    for _ in range(2):
        got = compiled(x3())
        assert inspect.isgenerator(got)
        assert torch.equal(torch.stack(list(got)), torch.stack(list(numbers(x3()))))


def test_generator_function_that_is_sent_values():
    def accumulate(x):
        while True:
            got = yield x
            if got is None:
                return "done"
            x = x + got

    generator = framejit.to_static(accumulate)(x3())
    next(generator)
    assert torch.equal(generator.send(2), x3() + 2)
    with pytest.raises(StopIteration) as caught:
        generator.send(None)
    assert caught.value.value == "done"


def test_coroutine_function():
    async def compute(x):
        await asyncio.sleep(0)
        return x + 1

    compiled = framejit.to_static(compute)
    for _ in range(2):
        assert torch.equal(asyncio.run(compiled(x3())), x3() + 1)


def test_async_generator_function():
    async def numbers(x):
        for i in range(2):
            yield x + i

    async def collect():
        return [value async for value in framejit.to_static(numbers)(x3())]

    assert torch.equal(torch.stack(asyncio.run(collect())), torch.stack([x3(), x3() + 1]))


def test_compiled_function_inside_a_coroutine():
    compiled = framejit.to_static(plus)

    async def main():
        return await asyncio.gather(*[step(i) for i in range(3)])

    async def step(i):
        await asyncio.sleep(0)
        return compiled(x3(), i)

    for i, got in enumerate(asyncio.run(main())):
        assert torch.equal(got, plus(x3(), i))


def test_exception_subclass_without_arguments_and_base_exception():
    class Quiet(BaseException):
        pass

    def f(x):
        x + 1
        raise Quiet

    compiled = framejit.to_static(f)
    for _ in range(2):
        with pytest.raises(Quiet):
            compiled(x3())


def test_argument_with_hostile_methods():
    class Hostile:
        def __eq__(self, other):
            raise RuntimeError("compared")

        def __hash__(self):
            raise RuntimeError("hashed")

        def __bool__(self):
            raise RuntimeError("asked for truth")

        def __len__(self):
            raise RuntimeError("measured")

        def __repr__(self):
            raise RuntimeError("printed")

        n = 3

    hostile = Hostile()
    compiled = framejit.to_static(lambda x, h: x * h.n)
    for _ in range(3):
        assert torch.equal(compiled(x3(), hostile), x3() * 3)
    with pytest.raises(RuntimeError, match="asked for truth"):
        framejit.to_static(lambda x, h: x if h else x + 1)(x3(), hostile)


def test_object_whose_attribute_access_has_side_effects():
    class Counter:
        def __init__(self):
            self.reads = 0

        @property
        def value(self):
            self.reads += 1
            return self.reads

    counter = Counter()
    assert_same_as_eager(lambda x: x * counter.value + counter.value, x3())
    compiled = framejit.to_static(lambda x: x * counter.value)
    for i in range(1, 5):
        assert torch.equal(compiled(x3()), x3() * i)


def test_attribute_error_inside_a_property():
    class Broken:
        @property
        def value(self):
            return self.no_such_name

    assert_same_as_eager(lambda x: x + Broken().value, x3(), raises=AttributeError, graphs=None, breaks=None)


def test_memory_error_and_keyboard_interrupt_are_the_users():
    for kind in (MemoryError, KeyboardInterrupt, GeneratorExit):

        def f(x):
            x.sin()
            raise kind("mine")

        compiled = framejit.to_static(f)
        for _ in range(2):
            with pytest.raises(kind, match="mine"):
                compiled(x3())


def test_function_that_returns_tensors_of_every_kind():
    def f(x):
        return (
            x.to_sparse(),
            torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
            x.to("meta"),
            x.conj(),
            x[:0],
        )

    assert_same_as_eager(f, x3(), graphs=None, breaks=None)


def test_tensor_without_storage_and_closed_over_types():
    def f(x):
        return torch.Tensor([1, 2]), torch.FloatTensor(2).shape, torch.tensor([]).shape, x + 1

    assert_same_as_eager(f, x3(), graphs=None, breaks=None)


def test_scripted_and_traced_functions_inside():
    scripted = torch.jit.trace(torch.nn.Linear(3, 3), (torch.ones(1, 3),))
    assert_same_as_eager(lambda x: scripted(x.sin()).cos(), torch.ones(2, 3), graphs=None, breaks=None)


def test_function_whose_globals_lack_builtins():
    import types

    def f(x):
        return x + len(x)

    bare = types.FunctionType(f.__code__, {"__builtins__": {"len": lambda value: 100}})
    compiled = framejit.to_static(bare)
    for _ in range(2):
        assert torch.equal(compiled(x3()), x3() + 100)


def test_callable_with_a_wrong_call_method():
    class Odd:
        def __call__():
            pass

    with pytest.raises(TypeError):
        framejit.to_static(Odd())(x3())


RECURSION_UNDER_A_CALLBACK = """
import gc, sys
import torch
import framejit

def nested(n, call):
    return call() if n == 0 else nested(n - 1, call)

def run():
    def forever(x):
        return forever(x + 1)

    try:
        framejit.to_static(forever)(torch.ones(3))
    except RecursionError:
        pass

sys.setrecursionlimit(250)
run()
gc.callbacks.append(lambda phase, info: None)
for threshold in (1, 3, 7):
    gc.set_threshold(threshold)
    for n in range(20):
        nested(n, run)
"""


def test_infinite_recursion_while_the_collector_calls_back(tmp_path):
    """Before 3.10 a callback that fails on the last level lets the recursion go on until the interpreter gives up."""
    program = tmp_path / "program.py"
    program.write_text(RECURSION_UNDER_A_CALLBACK)
    finished = subprocess.run([sys.executable, str(program)], stderr=subprocess.PIPE, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]


@pytest.mark.runs_once("the copies for the other run follow each of the parts anew")
def test_containers_that_share_their_parts():
    parts = (1, 2)
    for _ in range(60):
        parts = (parts, parts)
    sets = frozenset([3])
    for i in range(3):
        sets = frozenset([sets, i])
    ends = slice(parts, (sets, parts))
    # Eager alone is run by hand: what compares results would follow each of the parts anew.
    for fn in (lambda x, given: x + len(parts) + len(sets) + len(ends.stop), lambda x, given: x + len(given[0])):
        compiled = framejit.to_static(fn)
        for _ in range(2):
            assert torch.equal(compiled(x3(), parts), fn(x3(), parts))
        assert framejit.explain(fn, x3(), parts).graphs
