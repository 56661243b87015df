"""Python floats that a graph computes: out of a tensor by item() or float(), by arithmetic, and back into operators."""

import math
import subprocess
import sys

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


IN_ONE_GRAPH = {
    "item is returned": lambda x: x.sum().item(),
    "float is returned": lambda x: float(x.sum()),
    "float of a number": lambda x: float(x.sum().item()),
    "item of one element": lambda x: x[1:2].item(),
    "to the right of a tensor": lambda x: ((x + x[0].item()) * x[1].item() - x[2].item()) / x[0].item(),
    "to the left of a tensor": lambda x: x[0].item() + (x[1].item() * x),
    "less a tensor": lambda x: x[0].item() - x,
    "divided by a tensor": lambda x: x[0].item() / (x + 5),
    "other of a method": lambda x: x.mul(x[0].item()).div_(x[1].item()).sub(other=x[2].item()),
    "other of a function": lambda x: torch.add(x, x[0].item(), alpha=x[1].item()),
    "in place": lambda x: in_place(x.clone(), x[0].item()),
    "with constants": lambda x: x * (1 - 0.9 ** x[2].item()) + (x[0].item() + 2) / 3,
    "of two numbers": lambda x: x * (x[0].item() / x[2].item() - x[1].item()),
    "of an integer": lambda x: x + 2 ** x[2].item(),
    "negated": lambda x: x * -x[1].item() + +x[0].item(),
    "augmented": lambda x: augmented(x, x[0].item()),
    "square root": lambda x: x / math.sqrt(x[2].item()),
    "its type": lambda x: x * x[0].item() if isinstance(x[0].item(), (float, torch.Tensor)) else x,
    "value of addcdiv": lambda x: torch.addcdiv(x, x, x + 5, value=-x[0].item()),
    "alpha of add": lambda x: torch.add(x, x.cos(), alpha=x[1].item()),
    "lerp": lambda x: x.lerp(x.cos(), x[0].item()),
    "clamp": lambda x: x.clamp(max=x[0].item()),
    "after a write": lambda x: after_a_write(x.clone()),
    "from a callee": lambda x: x + half(x),
    "through a generator": lambda x: x * sum_of(n * 2 for n in [x[0].item()]),
    "unused": lambda x: (x.sum().item(), x + 1)[1],
    "in a list": lambda x: [x * 2, x.sum().item()],
    "in containers": lambda x: {"loss": x.sum().item(), "all": (x, [x[0].item() * 2])},
    "in an attribute": lambda x: keep(x * 2, x.sum().item()),
    "read again from a list": lambda x: sum_of([1 - 0.9**n for n in [x[1].item(), x[2].item()]]) * x,
    "appended": lambda x: appended(x),
    "of a tensor in double": lambda x: x * x.double().exp().sum().item(),
    "of a tensor in half": lambda x: x * x.half().sum().item(),
    "of a tensor in bfloat16": lambda x: x.bfloat16() * x.bfloat16().sum().item(),
}


class Kept:
    pass


KEPT = Kept()


def keep(x, number):
    KEPT.number = number
    return x


def appended(x):
    losses = []
    for factor in (1, 2):
        losses.append((x * factor).sum().item())
    return losses, x * losses[0]


def augmented(x, n):
    n += 1
    n *= 2
    n **= 2
    return x * n


def in_place(x, n):
    x += n
    x /= n
    return x


def after_a_write(x):
    before = x[0].item()
    x.add_(1)
    return x * before - x[0].item()


def half(x):
    return x.sum().item() / 2


def sum_of(numbers):
    total = 0.0
    for number in numbers:
        total = total + number
    return total


@pytest.mark.parametrize("name", sorted(IN_ONE_GRAPH))
def test_number_in_a_graph(name):
    assert_same_as_eager(IN_ONE_GRAPH[name], x3(), breaks=0, graphs=1)


@pytest.mark.parametrize("name", ["value of addcdiv", "to the right of a tensor", "with constants", "clamp"])
def test_number_in_kernels(name):
    compiled = framejit.to_static(IN_ONE_GRAPH[name], backend="native")
    for offset in range(3):
        x = torch.linspace(0.5, 3, 1000).double() + offset
        torch.testing.assert_close(compiled(x), IN_ONE_GRAPH[name](x), rtol=1e-12, atol=1e-12)
    assert compiled.cache_info().breaks == 0 and compiled.cache_info().hits == 2


ENDS_THE_GRAPH = {
    "a branch": lambda x: x + 1 if x.sum().item() > 0 else x - 1,
    "a text": lambda x: (x * 2, f"{x.sum().item():.3f}"),
    "a function of math": lambda x: x * math.exp(x[0].item()),
    "round": lambda x: x * round(x[0].item(), 2),
    "int": lambda x: x * int(x[2].item()),
    "a shape": lambda x: x.repeat(int(x[2].item())),
    "a power of a tensor": lambda x: x ** x[2].item(),
    "comparison with a tensor": lambda x: x > x[0].item(),
    "floor division": lambda x: x * (x[2].item() // 0.3),
    "a function that looks": lambda x: torch.nn.functional.dropout(x, abs(x[0].item()) * 0, True),
    "a tensor made of it": lambda x: x + torch.tensor(x[0].item()),
    "a filled tensor": lambda x: x + torch.full((3,), x[0].item()),
    "an index": lambda x: x * {0.5: 2}.get(x[0].item(), 3),
    "an integer": lambda x: x * x.long().sum().item(),
    "a truth value": lambda x: x * (x > 0).all().item(),
}


@pytest.mark.parametrize("name", sorted(ENDS_THE_GRAPH))
def test_what_looks_at_a_number_ends_the_graph(name):
    assert_same_as_eager(ENDS_THE_GRAPH[name], x3(), breaks=counts.at_least(1), graphs=counts.at_least(1))


RAISES = {
    "division by zero": (ZeroDivisionError, lambda x: x / (1 / (x[0].item() * 0))),
    "overflow": (OverflowError, lambda x: x * 10.0 ** (x[0].item() * 1e4)),
    "a power of zero": (ZeroDivisionError, lambda x: x * (x[0].item() * 0) ** -1),
    "root of a negative number": (ValueError, lambda x: x * math.sqrt(x[1].item())),
    "a number that is too large": (RuntimeError, lambda x: torch.add(x, x, alpha=x.double()[0].item() * 1e300)),
}


@pytest.mark.parametrize("name", sorted(RAISES))
def test_numbers_for_which_eager_raises(name):
    kind, program = RAISES[name]
    assert_same_as_eager(program, x3(), raises=kind, breaks=None, graphs=None, fallbacks=None)

    def handled(x, state):
        state.add_(1)
        try:
            return program(x + state.sum() * 0)
        except kind:
            state.mul_(3)
            return x - 1

    assert_same_as_eager(handled, x3(), x3(), breaks=None, graphs=None, fallbacks=None)


@pytest.mark.parametrize("name", sorted(RAISES))
def test_numbers_for_which_eager_raises_behind_writes(name):
    kind, program = RAISES[name]

    def written(x, state):
        state.add_(1)
        x.mul_(state.mean())  # the number depends on it
        return program(x)

    large = torch.cat([x3(), torch.zeros(61)])
    compiled = assert_same_as_eager(
        written, large, torch.zeros(64), raises=kind, breaks=None, graphs=None, fallbacks=None
    )
    assert any("mul_" in str(graph) for graph in compiled.graphs)


def test_complex_power_behind_a_write_is_eagers():
    def program(x):
        x.neg_()
        return x.sum().item() ** 0.5

    compiled = framejit.to_static(program)
    for value in (-1.0, -1.0, 2.0, -1.0):
        eager, given = torch.full((64,), value), torch.full((64,), value)
        expected, got = program(eager), compiled(given)
        assert type(got) is type(expected) and got == expected
        assert torch.equal(eager, given)
    assert compiled.cache_info().hits and any("neg_" in str(graph) for graph in compiled.graphs)


def test_complex_powers_are_eagers():
    compiled = framejit.to_static(lambda x: x.sum().item() ** 0.5)
    for sign in 1, -1, 1:
        assert compiled(sign * torch.ones(4)) == (sign * 4.0) ** 0.5


def test_number_for_an_operator_that_is_differentiated():
    def program(x):
        n = x.detach().abs().sum().item()
        return (x * n + torch.add(x, x.sin(), alpha=2) / n).sum()

    grads = []
    for function in program, framejit.to_static(program):
        x = x3().requires_grad_()
        function(x).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_nan_and_infinities():
    compiled = framejit.to_static(lambda x: x.max().item() * 2 + 1)
    for value in math.inf, -math.inf, -0.0, 1e-40:
        assert compiled(torch.full((3,), value)) == torch.full((3,), value)[0].item() * 2 + 1
    assert math.isnan(compiled(torch.full((3,), math.nan)))
    assert compiled.cache_info().breaks == 0


def test_numbers_before_a_break_are_alive_behind_it():
    def program(x):
        n, m = x.sum().item(), x[0].item()
        y = x * n
        framejit.graph_break()
        return y + n * m

    assert_same_as_eager(program, x3(), graphs=counts.at_least(1), breaks=counts.at_least(1))


def test_a_programs_back_end_gets_no_numbers():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    compiled = framejit.to_static(lambda x: x * x.sum().item() + 1, backend=backend)
    assert torch.equal(compiled(x3()), x3() * x3().sum().item() + 1)
    assert len(seen) == 2 and compiled.cache_info().breaks == 1


class LargerThan3(type):
    def __instancecheck__(cls, obj):
        return obj > 3


class Large(metaclass=LargerThan3):
    pass


def test_class_that_looks_at_the_number_itself():
    compiled = framejit.to_static(lambda x: isinstance(x.sum().item(), Large))
    assert [compiled(x3() * n) for n in (1, 5, 1)] == [False, True, False]


class Told(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append([type(arg).__name__ for arg in args])
        return super().__torch_function__(func, types, args, kwargs)


LOG = []


@pytest.mark.parametrize(
    "program", [lambda t, n: t * n, lambda t, n: torch.add(t, n), lambda t, n: t.addcmul(t, t, value=n)]
)
def test_subclass_is_given_a_float(program):
    def f(x, t):
        return program(t, x.sum().item())

    logs = []
    for function in f, framejit.to_static(f):
        LOG.clear()
        result = function(x3(), x3().as_subclass(Told))
        logs.append((list(LOG), result.as_subclass(torch.Tensor).tolist()))
    assert logs[0] == logs[1]


WARNING = """
import warnings
import torch, framejit

def program(x):
    return float(x.sum()) * 2 + x.sum().item()

def warned(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert function(torch.tensor([0.5, -1.5], requires_grad=True)) == -3
    return [str(warning.message).partition("(Triggered")[0] for warning in caught]

compiled = framejit.to_static(program)
with torch.no_grad():
    warned(compiled)
torch._C._set_warnAlways(True)
expected = warned(program)
assert expected == warned(compiled) == warned(compiled), expected
assert compiled.cache_info().hits
print(len(expected))
"""


def test_float_of_a_tensor_with_a_history_warns_as_in_eager():
    command = [sys.executable, "-c", WARNING]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    assert int(printed) == (tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9))


FOREACH = {
    "numbers alone": lambda x, n: torch._foreach_mul([x, x + 1], [n, n * 2]),
    "beside floats": lambda x, n: torch._foreach_add([x, x + 1], [n, 0.5]),
    "in place": lambda x, n: foreach_in_place(x, n),
    "one for all": lambda x, n: torch._foreach_div([x, x + 1], n),
    "values of addcdiv": lambda x, n: torch._foreach_addcdiv([x, x], [x, x], [x.abs() + 1, x.exp()], [n, -n]),
}


def foreach_in_place(x, n):
    tensors = [x.clone(), x + 1]
    torch._foreach_addcmul_(tensors, [x, x], [x, x], [n, n + 1])
    torch._foreach_sub_(tensors, n)
    return tensors


@pytest.mark.parametrize("name", sorted(FOREACH))
def test_list_of_numbers(name):
    def program(x):
        return FOREACH[name](x, x[1].item() + 0.25)

    assert_same_as_eager(program, x3(), breaks=0, graphs=1)
    assert_same_as_eager(program, x3().double(), breaks=0, graphs=1)
    assert_same_as_eager(program, x3().half(), breaks=0, graphs=1)


SUMS = {
    "numbers alone": lambda n, m: [n, m, n * 3],
    "one": lambda n, m: [n],
    "integers first": lambda n, m: [1, 2, n, m],
    "integers between": lambda n, m: [n, 1, m, True, n],
    "floats between": lambda n, m: [0.1, n, 0.1, m, 0.1],
    "large and small": lambda n, m: [1e100, n, -1e100, m],
    "large integers": lambda n, m: [2**52, n, -(2**52), m],
    "to infinity": lambda n, m: [1e308 * n, 1e308 * n, 1e308 * n, 1e308 * n, m],
    "negative zero": lambda n, m: [-0.0, n - n, m - m],
}


@pytest.mark.parametrize("start", [None, 0, 5, 0.1, -0.0, True])
@pytest.mark.parametrize("name", sorted(SUMS))
def test_sum_of_numbers(name, start):
    def program(x):
        numbers = SUMS[name](x[1].item(), x[2].item())
        total = sum(numbers) if start is None else sum(numbers, start)
        return total, math.copysign(1, total), x * 2

    x = torch.tensor([0.5, 0.1, 1 / 3], dtype=torch.float64)
    assert_same_as_eager(program, x, breaks=1, graphs=counts.at_least(1))  # copysign() is C's


def test_sum_of_numbers_is_in_the_graph():
    def program(x, items):
        return x * sum(item.item() for item in items) + sum(item.item() * i for i, item in enumerate(items))

    assert_same_as_eager(program, x3(), [x3().sum(), x3().exp().sum(), x3()[0]], breaks=0, graphs=1)


def test_sum_of_numbers_and_what_is_no_number():
    def program(x):
        return sum([x[0].item(), x[1].item(), x, 2.5]), sum([x, x[0].item()])

    assert_same_as_eager(program, x3(), breaks=0, graphs=1)
