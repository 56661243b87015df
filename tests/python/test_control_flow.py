"""torch.cond and while_loop: nodes of the graph whose bodies are graphs.

Eager runs them through Dynamo, which takes seconds, so most tests compare with the branch or the loop written in Python;
one, in a process of its own, with eager itself.
"""

import collections
import functools
import math
import operator
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

import framejit
from support.counts import counting

pytestmark = pytest.mark.runs_once("eager torch.cond compiles through Dynamo, for seconds each time")
TEN = torch.tensor(10.0)
LOG = []


def captured(fn, *args, graphs=1, breaks=0):
    """The results of a cold and of a warm call, which capture nothing anew."""
    framejit.reset()
    static = framejit.to_static(fn)
    with torch.no_grad(), counting() as counted:
        cold = static(*args)
    assert (counted.graphs, counted.breaks, counted.fallbacks) == (graphs, breaks, 0), counted.as_dict()
    with torch.no_grad(), counting() as counted:
        warm = static(*args)
    assert (counted.captures, counted.misses) == (0, 0), counted.as_dict()
    return static, cold, warm


def check(fn, reference, *inputs):
    """One capture serves all inputs, whichever way they take."""
    with torch.no_grad():
        expected = [reference(*args) for args in inputs]
    static, cold, warm = captured(fn, *inputs[0])
    assert same(cold, expected[0]) and same(warm, expected[0])
    with torch.no_grad(), counting() as counted:
        for args, result in zip(inputs, expected):
            assert same(static(*args), result)
    assert counted.captures == 0, counted.as_dict()
    return static


def same(a, b):
    if isinstance(b, torch.Tensor):
        return torch.equal(a, b) and a.stride() == b.stride()
    return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))


def three(sign=1.0):
    return sign * torch.tensor([0.5, 1.5, 2.0])


BOTH_WAYS = ((three(),), (three(-1.0),))


def test_branches_with_operands():
    def f(x):
        y = x * 2
        return torch.cond(y.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos() - 1, (y,)) * 3

    def reference(x):
        y = x * 2
        return (y.sin() + 1 if y.sum() > 0 else y.cos() - 1) * 3

    static = check(f, reference, *BOTH_WAYS)
    text = str(static.graphs[0])
    assert text.count("graph @body.") == 2 and "framejit.cond(" in text


def test_branches_see_outer_tensors_globals_and_modules():
    layer = nn.Linear(3, 3).eval()

    def f(x, scale):
        return torch.cond((x.sum() > 0), lambda: layer(x) * scale + TEN, lambda: x - TEN, ())

    def reference(x, scale):
        return layer(x) * scale + TEN if x.sum() > 0 else x - TEN

    static = check(f, reference, *((x, 2.0) for (x,) in BOTH_WAYS))
    with torch.no_grad():
        layer.weight.mul_(2)
        assert torch.equal(static(three(), 2.0), reference(three(), 2.0))


def test_results_of_several_tensors():
    def f(x):
        a, b = torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum()), lambda x: (x - 1, x.prod()), (x,))
        return a * b

    check(f, lambda x: (x + 1) * x.sum() if x.sum() > 0 else (x - 1) * x.prod(), *BOTH_WAYS)


def test_a_value_of_a_branch_is_used_no_further():
    def f(x):
        y = torch.cond(x.sum() > 0, lambda x: (x + 5).sin(), lambda x: (x + 5).cos(), (x,))
        return y + (x + 5)

    check(f, lambda x: ((x + 5).sin() if x.sum() > 0 else (x + 5).cos()) + (x + 5), *BOTH_WAYS)


def test_nested_branches():
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x * 2, lambda x: x * 3, (x,))

    def f(x):
        return torch.cond(x.sum() > 0, inner, lambda x: x.neg(), (x,))

    def reference(x):
        if x.sum() > 0:
            return x * 2 if x.max() > 1 else x * 3
        return x.neg()

    check(f, reference, *BOTH_WAYS, (three() / 4,))


def test_a_python_predicate_takes_one_branch():
    def f(x, flag):
        return torch.cond(flag, lambda x: x + 1, lambda x: x - 1, (x,))

    static, cold, warm = captured(f, three(), True)
    assert torch.equal(cold, three() + 1) and torch.equal(warm, three() + 1)
    assert torch.equal(static(three(), False), three() - 1)
    assert "framejit.cond" not in str(static.graphs[0])


def test_error_in_the_branch_that_runs():
    table = torch.arange(3.0)

    def f(x, index):
        return torch.cond(x.sum() > 0, lambda: table[index] + 1, lambda: x + 1, ())

    static, cold, _ = captured(f, three(), torch.tensor([0, 1, 2]))
    assert torch.equal(cold, table + 1)
    with torch.no_grad():
        assert torch.equal(static(three(-1.0), torch.tensor([0, 1, 7])), three(-1.0) + 1)  # not looked up
        with pytest.raises(IndexError):
            static(three(), torch.tensor([0, 1, 7]))


def counts_up(x):
    def test(i, y):
        return i < 5

    def body(i, y):
        return i + 1, y + x

    return while_loop(test, body, (torch.tensor(0), torch.zeros(3)))[1] * 2


needs_copies = pytest.mark.skipif(
    torch.__version__.startswith("2.4."), reason="a loop that runs no times gives its inputs themselves: it breaks"
)


@needs_copies
def test_loop():
    def reference(x):
        i, y = torch.tensor(0), torch.zeros(3)
        while i < 5:
            i, y = i + 1, y + x
        return y * 2

    static = check(counts_up, reference, *BOTH_WAYS)
    assert "framejit.while_loop(" in str(static.graphs[0])


@needs_copies
def test_loop_that_depends_on_data_and_may_run_no_times():
    def f(x, limit):
        (y,) = while_loop(lambda y: y.sum() < limit, lambda y: (y * 2,), (x,))
        return y, y is x

    def reference(x, limit):
        y = x.clone()
        while y.sum() < limit:
            y = y * 2
        return y, False

    with torch.no_grad():
        for limit in (100.0, 1000.0, -1.0):
            limit = torch.tensor(limit)
            static, cold, warm = captured(f, three(), limit)
            for got in (cold, warm):
                assert torch.equal(got[0], reference(three(), limit)[0]) and got[1] is False
    with torch.no_grad():
        x = three()
        y, _ = static(x, torch.tensor(-1.0))
        y.add_(1)
        assert torch.equal(x, three())


REFUSED = {
    "an item is appended": lambda x: torch.cond(x.sum() > 0, lambda x: (LOG.append(1), x + 1)[1], lambda x: x - 1, (x,)),
    "an operand is written": lambda x: torch.cond(x.sum() > 0, lambda x: x.add_(1) * 1, lambda x: x - 1, (x,)),
    "an operand is the result": lambda x: torch.cond(x.sum() > 0, lambda x: x, lambda x: x - 1, (x,)),
    "a view of an operand": lambda x: torch.cond(x.sum() > 0, lambda x: x[:2], lambda x: x[1:] - 1, (x,)),
    "random numbers": lambda x: torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x - 1, (x,)),
    "other kinds": lambda x: torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x - 1, (x,)),
    "data is looked at": lambda x: torch.cond(x.sum() > 0, lambda x: x * x.sum().item(), lambda x: x - 1, (x,)),
    "an exception": lambda x: torch.cond(x.sum() > 0, lambda x: x + {}["missing"], lambda x: x - 1, (x,)),
}


class Box:
    pass


def nonlocal_count(state):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return 0

    state["count"] = lambda: count
    return bump


def set_global(state):
    global LAST
    LAST = 1
    return 0


LAST = 0


def changed_in_place(state):
    items = state["list"]
    items += [1]
    return 0


# What a branch that is not taken must not do: the state before, what the branch does to it.
EFFECTS = {
    "append": lambda s: s["list"].append(1) or 0,
    "insert": lambda s: s["list"].insert(0, 1) or 0,
    "bound append": lambda s: s["append"](1) or 0,
    "in place": changed_in_place,
    "item": lambda s: s["dict"].__setitem__("a", 1) or 0,
    "update": lambda s: s["dict"].update(a=1) or 0,
    "setdefault": lambda s: s["dict"].setdefault("a", 1) * 0,
    "pop": lambda s: s["full"].pop("a") * 0,
    "set": lambda s: s["set"].add(1) or 0,
    "setattr": lambda s: setattr(s["box"], "a", 1) or 0,
    "method of object": lambda s: object.__setattr__(s["box"], "a", 1) or 0,
    "operator": lambda s: operator.setitem(s["dict"], "a", 1) or 0,
    "next": lambda s: next(s["iterator"]) * 0,
    "sum of an iterator": lambda s: sum(s["iterator"]) * 0,
    "tuple of an iterator": lambda s: len(tuple(s["iterator"])) * 0,
    "unpacking": lambda s: len([*s["iterator"]]) * 0,
    "in an iterator": lambda s: (5 in s["iterator"]) * 0,
    "max of an iterator": lambda s: max(s["iterator"]) * 0,
    "math of an iterator": lambda s: math.prod(s["iterator"]) * 0,
    "generator": lambda s: next(s["generator"]) * 0,
    "send": lambda s: s["generator"].send(None) * 0,
    "deque": lambda s: s["deque"].append(1) or 0,
    "bytearray": lambda s: s["bytes"].append(1) or 0,
    "global": set_global,
    "nonlocal": lambda s: s["bump"](),
    "grad mode": lambda s: torch.set_grad_enabled(True) and 0,
    "cache": lambda s: s["cache"](1) * 0,
}


def make_state():
    state = {"list": [], "dict": {}, "full": {"a": 1}, "set": set(), "box": Box(), "iterator": iter([1, 2, 3])}
    state["append"] = state["list"].append
    state["generator"] = (n for n in (1, 2, 3))
    state["deque"], state["bytes"] = collections.deque(), bytearray()
    state["bump"] = nonlocal_count(state)
    state["cache"] = functools.lru_cache(None)(lambda n: n + 1)
    return state


def state_now(state):
    return (
        list(state["list"]), dict(state["dict"]), dict(state["full"]), set(state["set"]), vars(state["box"]), list(state["iterator"]),
        list(state["generator"]), list(state["deque"]), bytes(state["bytes"]), LAST, state["count"](), state["cache"].cache_info(),
        torch.is_grad_enabled(),
    )  # fmt: skip


@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_of_the_branch_that_is_not_taken_do_not_happen(effect, monkeypatch):
    monkeypatch.setattr(torch.cond, "__code__", stand_in.__code__)
    state, do = make_state(), EFFECTS[effect]
    static = framejit.to_static(
        lambda x: torch.cond(x.sum() > 0, lambda x: x + do(state), lambda x: x - 1, (x,))
    )
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(static(three(-1.0)), three(-1.0) - 1)
        assert state_now(state) == state_now(make_state())


def stand_in(pred, true_fn, false_fn, operands=()):
    return (true_fn if pred else false_fn)(*operands)


def break_details(fn, x, monkeypatch):
    """Why the capture breaks, with Python's own `if` in the place of eager's torch.cond, which runs at the break."""

    monkeypatch.setattr(torch.cond, "__code__", stand_in.__code__)
    with torch.no_grad():
        return [item.why() for item in framejit.explain(fn, x).breaks]


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_body_breaks(what, monkeypatch):
    LOG.clear()
    details = break_details(REFUSED[what], three(-1.0), monkeypatch)
    assert details and not LOG, details


def test_gradients_break(monkeypatch):
    x = three().requires_grad_()
    static = framejit.to_static(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))

    monkeypatch.setattr(torch.cond, "__code__", stand_in.__code__)
    static(x).sum().backward()
    assert torch.equal(x.grad, three().cos())


AGAINST_EAGER = """
import torch, framejit
def f(x):
    y = torch.cond(x.sum() > 0, lambda a: (a.sin() + 1, a.sum()), lambda a: (a.cos() - 1, a.prod()), (x * 2,))
    return y[0] * y[1], type(y)
static = framejit.to_static(f)
with torch.no_grad():
    for x in (torch.ones(3), -torch.ones(3)):
        expected = f(x)
        got = static(x)
        assert torch.equal(got[0], expected[0]) and got[1] is expected[1], (got, expected)
assert static.cache_info().breaks == 0 and static.cache_info().entries == 1
"""


@pytest.mark.slow
def test_as_eager_does():
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    environment = dict(os.environ, PYTHONPATH=path, FRAMEJIT_STRICT="1", FRAMEJIT_SHADOW="0")
    done = subprocess.run(
        [sys.executable, "-c", AGAINST_EAGER], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout.decode()


def iterates(x):
    seen = []
    for i, scale in enumerate(zip((1.0, 2.0), [3.0, 4.0])):
        seen.append(x * scale[0] + i)
    ways = iter(seen)
    return sum(t.sin() for t in [next(ways), *ways])


class Scaled:
    def __init__(self, x):
        self.x = x * 2

    def __call__(self):
        return self.x.cos()


def makes_an_object(x):
    return Scaled(x)().sin()


LAYERS = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


@pytest.mark.parametrize("body", [iterates, makes_an_object, LAYERS], ids=["iterators", "object", "Sequential"])
def test_what_a_body_makes_it_may_change(body):
    check(
        lambda x: torch.cond(x.sum() > 0, body, torch.neg, (x,)),
        lambda x: body(x) if x.sum() > 0 else -x,
        (torch.linspace(0.0, 1.0, 3),),
        (torch.linspace(-1.0, 0.0, 3),),
    )


def fills(seen, x):
    seen.append(x)
    return x * len(seen)


def test_what_another_body_made_it_may_not_change():
    def outer(x):
        seen = [x]
        return torch.cond(x.max() > 10, lambda y: fills(seen, y), lambda y: y * len(seen), (x,))

    static = framejit.to_static(lambda x: torch.cond(x.sum() > 0, outer, torch.neg, (x,)), full_graph=True)
    with torch.no_grad(), pytest.raises(framejit.GraphBreakError, match="builtins.list.append is called"):
        static(torch.ones(3))
