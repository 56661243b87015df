"""Operators that a C++ extension registers: nodes where their results can be inferred, else breaks that say why."""

import os
import re
import shutil
import subprocess

import pytest
import torch

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

COMPILER = os.environ.get("CXX") or shutil.which("c++")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "operators_in_cpp.cpp")
with open(SOURCE) as source:
    NAMES = re.findall(r'm\.def\("(\w+)\(', source.read())

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")


@pytest.fixture(scope="module", autouse=True)
def extension(tmp_path_factory):
    library = str(tmp_path_factory.mktemp("cpp_operators") / "operators.so")
    root = os.path.dirname(torch.__file__)
    include = os.path.join(root, "include")
    command = [COMPILER, "-std=c++20", "-O0", "-w", "-fPIC", "-shared", SOURCE, "-o", library]
    command += ["-I" + include, "-I" + os.path.join(include, "torch", "csrc", "api", "include")]
    command += ["-L" + os.path.join(root, "lib"), "-ltorch_cpu", "-ltorch", "-lc10"]
    command += ["-D_GLIBCXX_USE_CXX11_ABI=" + str(int(torch._C._GLIBCXX_USE_CXX11_ABI))]
    built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert built.returncode == 0, built.stdout[-3000:]
    torch.ops.load_library(library)
    for name in NAMES:  # each is kept where it is first asked for
        getattr(torch.ops.framejit_cpp, name).default


ops = torch.ops.framejit_cpp


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    options.setdefault("miss", None)
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def in_place_on_fresh(x):
    y = x + 1
    ops.add_(y, 2.0)
    ops.add_(y[:2], 1.0)
    return y * 2


CALLS = {
    "by the packet": lambda x: ops.scaled(x + 1) * 2,
    "by the overload": lambda x: ops.scaled.default(x + 1, 3.0) * 2,
    "by keyword": lambda x: ops.scaled(x=x, by=1.5),
    "two results": lambda x: ops.two(x, None, "abc"),
    "an optional tensor": lambda x: ops.two(x, x * 2, how="abc"),
    "a list of results": lambda x: [part * 2 for part in ops.parts(x, [1, 2])],
    "in place on an input": lambda x: (ops.add_(x, 2.0), x * 2)[1],
    "in place on a view": lambda x: (ops.add_(x[1:], 2.0), x * 2)[1],
    "in place on what was made": in_place_on_fresh,
    "with a gradient": lambda x: ops.cube(x + 1) * 2,
}


@pytest.mark.parametrize("what", CALLS)
def test_is_a_node(what):
    compiled = check(lambda x: CALLS[what](x))
    assert "framejit_cpp." in str(compiled.graphs[0])
    with torch.no_grad():
        check(lambda x: CALLS[what](x), x3().requires_grad_())


def test_composite_is_what_it_calls():
    def f(x):
        y = ops.composed(x + 1)
        ops.composed_(y, 1.0)
        return y * 2

    text = str(check(f).graphs[0])
    assert "aten.sin(" in text and "aten.cos(" in text and "aten.add_." in text and "framejit_cpp" not in text


@pytest.mark.runs_once("the kernels count how often they ran")
@pytest.mark.parametrize("name", ["calls", "calls_seen_by", "tensor_of_calls"])
def test_composite_that_looks_at_the_process_is_asked_each_time(name):
    operator = getattr(ops, name)
    compiled = framejit.to_static(lambda x: x * 0 + operator(*([x] if name == "calls_seen_by" else [])))
    for _ in range(4):
        ops.count_a_call(x3())
        assert torch.equal(compiled(x3()), torch.full((3,), float(ops.calls())))


BREAKS = {
    "no Meta kernel": (lambda x: ops.opaque(x + 1) * 2, "framejit_cpp::opaque"),
    "no Meta kernel under a gradient": (lambda x: ops.opaque_cube(x + 1) * 2, "framejit_cpp::opaque_cube"),
    "a kernel for all devices": (lambda x: ops.everywhere(x + 1) * 2, "framejit_cpp::everywhere"),
    "a view for result": (lambda x: ops.first(x + 1) * 2, "framejit_cpp::first"),
    "a size from data": (lambda x: ops.sized_by_data(x * x) + 1, "framejit_cpp::sized_by_data"),
    "a number for result": (lambda x: x * 2 * (ops.calls() > 0) + 1, "framejit_cpp::calls is a composite that returns"),
    "a number of a tensor": (lambda x: x * 2 * (ops.calls_seen_by(x) > 0), "framejit_cpp::calls_seen_by is a composite"),
    "nothing for result": (lambda x: (ops.count_a_call(x + 1), x + 2)[1], "framejit_cpp::count_a_call is a composite without"),
    "no tensor taken": (lambda x: x * 2 + (ops.tensor_of_calls() > 0), "framejit_cpp::tensor_of_calls is a composite that takes"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_break_says_which_operator_and_why(what):
    fn, name = BREAKS[what]
    check(lambda x: fn(x), graphs=at_least(1), breaks=at_least(1))
    report = str(framejit.explain(fn, x3()))
    assert name in report, report


def after_backward(pair):
    pair[0].sum().backward()
    return pair[1].grad


def test_gradient_written_in_cpp_is_recorded():
    compiled = check(lambda x: (ops.cube(x * 2) * x, x), make=lambda: ((x3().requires_grad_(),), {}), after=after_backward)
    assert "framejit_cpp.cube" in str(compiled.graphs[0])
    x = x3().requires_grad_()
    compiled(x)[0].sum().backward()
    y = 2 * x.detach()
    assert torch.allclose(x.grad, y**3 + x.detach() * y * y * 60)  # of its formula, which is not cube's


@pytest.mark.parametrize("name", ["scaled", "opaque", "opaque_cube"])
def test_gradient_of_others_is_eagers(name):
    def run(x):
        return getattr(ops, name)(x.sin()) * x, x

    check(run, make=lambda: ((x3().requires_grad_(),), {}), after=after_backward, graphs=at_least(1), breaks=at_least(1))


def test_composite_is_differentiated():
    check(lambda x: (ops.composed(x * 2), x), make=lambda: ((x3().requires_grad_(),), {}), after=after_backward)


def test_detached_argument_in_training():
    check(lambda x: (ops.scaled(x.detach()) * x, x), make=lambda: ((x3().requires_grad_(),), {}), after=after_backward)


@pytest.mark.runs_once("the kernels count how often they ran")
def test_kernels_run_once_a_call():
    def f(x):
        y = ops.scaled(x + 1)
        ops.scaled(y)  # nothing uses it
        ops.add_(y, 1.0)
        return ops.cube(y)

    compiled = framejit.to_static(f)
    for run in (f, compiled, compiled, compiled):
        before = ops.calls()
        run(x3())
        assert ops.calls() == before + 4
    assert len(compiled.graphs) == 1


@pytest.mark.runs_once("the kernels count how often they ran")
def test_failure_is_eagers_and_ran_once():
    def f(x, log):
        log.append("before")
        return ops.refuses(x * 2) + 1

    compiled = framejit.to_static(f)
    for _ in range(3):
        before, log = ops.calls(), []
        with pytest.raises(ValueError, match="refused by C"):
            compiled(x3(), log)
        assert log == ["before"] and ops.calls() == before + 1


def test_failure_in_sight_of_a_handler():
    def f(x):
        try:
            return ops.refuses(x * 2)
        except ValueError:
            return x + 1

    check(f, graphs=None, breaks=at_least(1))


def test_another_shape_is_another_capture():
    compiled = framejit.to_static(lambda x: ops.scaled(x) + 1)
    for shape in ((3,), (2, 2), (3,)):
        x = torch.ones(shape)
        with counts.counting() as seen:
            assert torch.equal(compiled(x), x * 2 + 1)
        assert seen.fallbacks == 0
    assert len(compiled.graphs) == 2
