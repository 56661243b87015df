"""Custom operators in captured code: one node each, whose kernel runs once per call, in the program's order."""

import pytest
import torch

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LIBRARY = torch.library.Library("framejit_custom", "DEF")
LOG = []


def define(schema, meta=None, **implementations):
    """An operator with Python kernels; `implementations` are by dispatch key."""
    LIBRARY.define(schema)
    name = schema.split("(")[0]
    for key, kernel in implementations.items():
        LIBRARY.impl(name, kernel, key)
    if meta is not None:
        LIBRARY.impl(name, meta, "Meta")
    getattr(torch.ops.framejit_custom, name).default  # which is kept where it is first asked for


def logged(name, kernel):
    def run(*args, **kwargs):
        LOG.append((name, torch.is_grad_enabled(), torch._C._dispatch_tls_is_dispatch_key_excluded("AutogradCPU")))
        return kernel(*args, **kwargs)

    return run


def add_in_place(x, amount):
    x.add_(amount)


def refuse(x):
    raise ValueError("on purpose")


define("twice(Tensor x, float by=2.0) -> Tensor", lambda x, by=2.0: torch.empty_like(x),
       CPU=logged("twice", lambda x, by=2.0: x * by))  # fmt: skip
define("parts(Tensor x, int[] sizes, *, bool flip=False) -> Tensor[]",
       lambda x, sizes, flip=False: [x.new_empty(size) for size in sizes],
       CPU=logged("parts", lambda x, sizes, flip=False: [p.clone() for p in x.split(sizes)][:: -1 if flip else 1]))  # fmt: skip
define("two(Tensor x, Tensor? y, str how) -> (Tensor, Tensor)",
       lambda x, y, how: (torch.empty_like(x), x.new_empty(())),
       CPU=logged("two", lambda x, y, how: (x + (0 if y is None else y), x.sum() * len(how))))  # fmt: skip
define("add_(Tensor(a!) x, float amount) -> ()", lambda x, amount: None, CPU=logged("add_", add_in_place))
define("note(Tensor x) -> ()", lambda x: None, CPU=logged("note", lambda x: None))
define("without_meta(Tensor x) -> Tensor", CPU=logged("without_meta", lambda x: x + 1))
define("explicit(Tensor x) -> Tensor", CompositeExplicitAutograd=logged("explicit", lambda x: x + 1))
define("implicit(Tensor x) -> Tensor", CompositeImplicitAutograd=logged("implicit", lambda x: x + 1))
define("own_gradient(Tensor x) -> Tensor", lambda x: torch.empty_like(x), CPU=lambda x: x + 1,
       Autograd=logged("own_gradient", lambda x: x * 3))  # fmt: skip
define("number(Tensor x) -> int", lambda x: 3, CPU=lambda x: x.numel())
define("part(Tensor(a) x) -> Tensor(a)", lambda x: x[0], CPU=lambda x: x[0])
define("wide(Tensor x) -> Tensor", lambda x: x.new_empty(int(x.sum())), CPU=lambda x: x.new_zeros(int(x.sum())))
define("refuse(Tensor x) -> Tensor", lambda x: torch.empty_like(x), CPU=logged("refuse", refuse))
define("differentiates(Tensor x) -> Tensor", lambda x: torch.empty_like(x))


def differentiates(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y * y).sum(), y)[0]


LIBRARY.impl("differentiates", differentiates, "CPU")
ops = torch.ops.framejit_custom


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    LOG.clear()
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


CALLS = {
    "by the packet": lambda x: ops.twice(x + 1) * 2,
    "by the overload": lambda x: ops.twice.default(x + 1, 3.0) * 2,
    "by keyword": lambda x: ops.twice(x=x, by=1.5),
    "a list of results": lambda x: [part * 2 for part in ops.parts(x, [1, 2], flip=True)],
    "two results": lambda x: ops.two(x, None, "abc"),
    "an optional tensor": lambda x: ops.two(x, x * 2, how="abc"),
    "in place on an input": lambda x: (ops.add_(x, 2.0), x * 2)[1],
    "in place on a view": lambda x: (ops.add_(x[1:], 2.0), x * 2)[1],
    "in place on what was made": lambda x: in_place_on_fresh(x),
    "without a result": lambda x: (ops.note(x), x + 1)[1],
    "twice over": lambda x: ops.twice(x) - ops.twice(x),
    "autograd in the kernel": lambda x: ops.differentiates(x + 1),
}

def in_place_on_fresh(x):
    y = x + 1
    ops.add_(y, 2.0)
    ops.add_(y[:2], 1.0)
    return y * 2


@pytest.mark.parametrize("what", CALLS)
def test_one_graph(what):
    compiled = check(lambda x: CALLS[what](x))
    assert "framejit_custom." in str(compiled.graphs[0])


@pytest.mark.parametrize("what", CALLS)
def test_one_graph_where_grad_mode_is_off(what):
    with torch.no_grad():
        check(lambda x: CALLS[what](x), x3().requires_grad_())


@pytest.mark.runs_once("the kernel says each time that it ran")
def test_kernel_runs_once_a_call_and_in_order():
    def f(x):
        ops.note(x)
        y = ops.twice(x + 1)
        ops.twice(y)  # nothing uses it
        ops.note(y)
        return y

    compiled = framejit.to_static(f)
    LOG.clear()
    f(x3())
    expected = list(LOG)
    assert [name for name, *_ in expected] == ["note", "twice", "twice", "note"]
    for _ in range(3):
        LOG.clear()
        compiled(x3())
        assert LOG == expected  # with the grad mode and the dispatch state that eager's kernels see
    assert framejit.stats()["graphs"] >= 1


def test_versions_count_the_writes():
    def f(x):
        ops.add_(x, 1.0)
        ops.add_(x[1:], 1.0)
        return x + 1

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled):
        x = x3()
        run(x)
        assert x._version == 2


BREAKS = {
    "no Meta kernel": (lambda x: ops.without_meta(x + 1) * 2, "OperatorFailed"),
    "a kernel for all devices": (lambda x: ops.explicit(x + 1) * 2, "OperatorFailed"),
    "a composite in Python": (lambda x: ops.implicit(x + 1) * 2, "UnknownCall"),
    "an autograd kernel in Python": (lambda x: ops.own_gradient(x + 1) * 2, "UnknownCall"),
    "a number for result": (lambda x: x * ops.number(x + 1), "OperatorFailed"),
    "a view for result": (lambda x: ops.part(x + 1) * 2, "OperatorFailed"),
    "a size from data": (lambda x: ops.wide(x * x) + 1, "OperatorFailed"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_break_with_graphs_on_both_sides(what):
    fn, reason = BREAKS[what]
    check(lambda x: fn(x), graphs=at_least(1), breaks=at_least(1))
    LOG.clear()
    report = framejit.explain(fn, x3())
    assert reason in report.stats["break_reasons"], report.stats


def test_gradient_through_a_kernel_is_eagers():
    """Without a formula the kernel's own operators are differentiated."""

    def run(x):
        return ops.twice(x.sin()) * x, x

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(run, x3().requires_grad_(), after=after, graphs=at_least(2), breaks=at_least(1))


def test_custom_operator_on_a_detached_tensor_in_training():
    def run(x):
        return ops.twice(x.detach()) * x, x

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(run, x3().requires_grad_(), after=after)


@pytest.mark.runs_once("the kernel says each time that it ran")
def test_failure_leaves_the_call_and_ran_once():
    compiled = framejit.to_static(lambda x: ops.refuse(x * 2) + 1)
    for count in (1, 2):
        LOG.clear()
        with pytest.raises(ValueError, match="on purpose"):
            compiled(x3())
        assert len(LOG) == 1
    assert framejit.stats()["graphs"] >= 1


@pytest.mark.runs_once("the kernel says each time that it ran")
def test_failure_in_sight_of_a_handler():
    def f(x, log):
        log.append("before")
        try:
            return ops.refuse(x * 2)
        except ValueError as error:
            log.append(str(error))
            return x + 1

    for _ in range(2):
        LOG.clear()
        log = []
        framejit.to_static(f)(x3(), log)
        assert log == ["before", "on purpose"] and len(LOG) == 1
    check(lambda x: f(x, []), graphs=None, breaks=at_least(1))


@pytest.mark.runs_once("the kernel says each time that it ran")
def test_effect_before_a_later_failure_happens_once():
    def f(x, indices, log):
        ops.note(x)
        log.append("before")
        return x[indices]

    compiled = framejit.to_static(f)
    good, bad = torch.tensor([0, 1]), torch.tensor([7])
    for indices in (good, bad, good, bad):
        LOG.clear()
        log = []
        try:
            compiled(x3(), indices, log)
        except IndexError:
            assert indices is bad
        assert log == ["before"] and len(LOG) == 1


def test_another_grad_mode_inside():
    def f(x):
        with torch.no_grad():
            y = ops.twice(x)
        return y + 1

    check(f, graphs=None, breaks=at_least(1))


# torch.library.custom_op


@torch.library.custom_op("framejit_custom_py::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    LOG.append(("scaled", by))
    return x * by


@scaled.register_fake
def _(x, by=2.0):
    return torch.empty_like(x)


@torch.library.custom_op("framejit_custom_py::with_gradient", mutates_args=())
def with_gradient(x: torch.Tensor) -> torch.Tensor:
    LOG.append("with_gradient")
    return x.sin()


@with_gradient.register_fake
def _(x):
    return torch.empty_like(x)


def keep_input(ctx, inputs, output):
    LOG.append("setup")
    ctx.save_for_backward(*inputs)


def gradient_of_sine(ctx, gradient):
    LOG.append("backward")
    return gradient * ctx.saved_tensors[0].cos() * 10


with_gradient.register_autograd(gradient_of_sine, setup_context=keep_input)


@torch.library.custom_op("framejit_custom_py::fill", mutates_args={"x"})
def fill(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


@torch.library.custom_op("framejit_custom_py::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


# What torch notes of itself at the first call of each kernel.
scaled(torch.ones(2, device="meta"))
with_gradient(torch.ones(2, device="meta"))
fill(torch.ones(2, device="meta"), 1.0)
with pytest.raises(RuntimeError):
    without_fake(torch.ones(2, device="meta"))


DEFINITIONS = {
    "the definition": lambda x: scaled(x + 1) * 2,
    "by keyword": lambda x: scaled(x, by=3.0),
    "its operator": lambda x: torch.ops.framejit_custom_py.scaled(x, 3.0) + 1,
    "with a formula for its gradient": lambda x: with_gradient(x + 1) * 2,
}


@pytest.mark.parametrize("what", DEFINITIONS)
def test_custom_op_is_one_graph(what):
    check(lambda x: DEFINITIONS[what](x))


def test_custom_op_that_writes():
    def f(x):
        y = x * 2
        fill(y, 3.0)
        fill(x, 1.0)
        return x + y

    check(f)
    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled):
        x = x3()
        run(x)
        assert x._version == x3()._version + run_version(f)


def run_version(f):
    x = x3()
    f(x)
    return x._version


def test_custom_op_with_gradients_is_one_break():
    def run(x):
        return with_gradient(x * 2) + x, x

    def after(pair):
        pair[0].sum().backward()
        return pair[1].grad

    check(run, x3().requires_grad_(), after=after, graphs=at_least(2), breaks=at_least(1))


def test_custom_op_formulas_run_as_in_eager():
    compiled = framejit.to_static(lambda x: with_gradient(x * 2) + x)
    for _ in range(3):
        LOG.clear()
        loss = compiled(x3().requires_grad_()).sum()
        assert LOG == ["with_gradient", "setup"]
        loss.backward()
        assert LOG == ["with_gradient", "setup", "backward"]


def test_custom_op_without_a_fake_kernel():
    check(lambda x: without_fake(x * 2) + 1, graphs=at_least(1), breaks=at_least(1))
    report = framejit.explain(lambda x: without_fake(x * 2) + 1, x3())
    assert "OperatorFailed" in report.stats["break_reasons"]


def test_custom_op_under_autocast():
    def f(x):
        return scaled(x @ x)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(f, torch.ones(3, 3))


# The life of an operator


def test_operator_defined_again_with_another_schema():
    name = "framejit_custom_again"

    def made(schema, kernel, meta):
        library = torch.library.Library(name, "DEF")
        library.define(schema)
        library.impl("f", kernel, "CPU")
        library.impl("f", meta, "Meta")
        return library

    library = made("f(Tensor x) -> Tensor", lambda x: x + 1, lambda x: torch.empty_like(x))
    operator = getattr(torch.ops, name).f.default
    compiled = framejit.to_static(lambda x: operator(x) * 2)
    assert torch.equal(compiled(x3()), (x3() + 1) * 2)
    library._destroy()
    with pytest.raises(Exception):
        compiled(x3())
    del library
    library = made("f(Tensor x, int n, int m) -> Tensor", lambda x, n, m: x + n, lambda x, n, m: torch.empty_like(x))
    with pytest.raises(Exception):
        compiled(x3())
    library._destroy()


def test_kernel_is_looked_up_at_each_call():
    library = torch.library.Library("framejit_custom_late", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: torch.empty_like(x), "Meta")
    with counts.counting():
        compiled = framejit.to_static(lambda x: torch.ops.framejit_custom_late.f(x) * 2)
        with pytest.raises(NotImplementedError):
            compiled(x3())
        library.impl("f", lambda x: x + 1, "CPU")
        assert torch.equal(compiled(x3()), (x3() + 1) * 2)
    library._destroy()
