"""Nothing is kept alive: deleted models, arguments, results and functions are freed, and entries go with them."""

import gc
import operator
import os
import re
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn

import framejit
from support import counts


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def freed(make):
    """True if the object that `make()` returns (with whatever else holds it) is freed after use."""
    reference = weakref.ref(make())
    gc.collect()
    return reference() is None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


class BreakingNet(Net):
    def forward(self, x):
        y = self.linear(x)
        framejit.graph_break()
        return y.relu()


@pytest.mark.parametrize("kind", [Net, BreakingNet])
def test_converted_module_is_freed(kind):
    def make():
        net = framejit.to_static(kind())
        net(x3())
        net(x3())
        return net

    assert freed(make)


@pytest.mark.parametrize("kind", [Net, BreakingNet])
def test_module_in_a_closure_is_freed_with_its_function(kind):
    def make():
        net = kind()
        compiled = framejit.to_static(lambda x: net(x) + 1)
        compiled(x3())
        compiled(x3())
        return net

    assert freed(make)


def shared(net, x):
    return net(x) * 2


def test_module_passed_to_a_living_function_is_freed():
    compiled = framejit.to_static(shared)

    def make():
        net = Net()
        compiled(net, x3())
        compiled(net, x3())
        return net

    assert freed(make)


def test_entry_is_dropped_with_its_module():
    compiled = framejit.to_static(shared)
    for _ in range(20):
        net = Net()
        compiled(net, x3())
        del net
        gc.collect()
    counts.check_true("entries", compiled.cache_info().entries <= 2)


def test_new_object_at_an_old_address_is_not_mistaken():
    compiled = framejit.to_static(shared)
    for i in range(30):
        net = Net()
        with torch.no_grad():
            net.linear.weight.fill_(float(i))
        assert torch.equal(compiled(net, x3()), shared(net, x3()))
        del net


def test_function_is_freed():
    def make():
        def f(x):
            return x + 1

        compiled = framejit.to_static(f)
        compiled(x3())
        return f

    assert freed(make)


def test_function_with_breaks_is_freed():
    def make():
        def helper(x):
            framejit.graph_break()
            return x + 1

        def f(x):
            for _ in range(2):
                x = helper(x.sin()).cos()
            return x

        compiled = framejit.to_static(f)
        compiled(x3())
        compiled(x3())
        return f

    assert freed(make)


def test_arguments_and_results_are_freed():
    compiled = framejit.to_static(lambda x, items: (x + items[0], [x * 2]))
    for _ in range(3):
        x, items = x3(), [x3()]
        result = compiled(x, items)
        references = [weakref.ref(value) for value in (x, items[0], result[0], result[1][0])]
        del x, items, result
        gc.collect()
        assert [reference() for reference in references] == [None] * 4


def test_arguments_are_freed_after_an_exception():
    def f(x):
        y = x + 1
        framejit.graph_break()
        raise ValueError(y.sum())

    compiled = framejit.to_static(f)
    for _ in range(3):
        x = x3()
        reference = weakref.ref(x)
        with pytest.raises(ValueError) as caught:
            compiled(x)
        del x, caught
        gc.collect()
        assert reference() is None


def test_locals_die_when_eager_lets_them_die():
    deaths = []

    class Watched:
        def __del__(self):
            deaths.append("died")

    def f(x):
        watched = Watched()
        y = x.sin()
        del watched
        deaths.append("after del")
        framejit.graph_break()
        return y.cos()

    f(x3())
    expected = deaths[:]
    compiled = framejit.to_static(f)
    for _ in range(2):
        deaths.clear()
        compiled(x3())
        assert deaths == expected


def test_result_survives_its_function():
    compiled = framejit.to_static(lambda x: x.view(-1)[1:])
    x = x3()
    y = compiled(x)
    y = compiled(x)
    del compiled, x
    gc.collect()
    assert y.tolist() == [-1.5, 2.0]


def test_backward_after_the_function_and_the_module_died():
    net = Net()
    weight = net.linear.weight
    compiled = framejit.to_static(lambda x: net(x).sum())
    compiled(x3())
    loss = compiled(x3())
    del compiled, net
    gc.collect()
    framejit.reset()
    loss.backward()
    assert weight.grad is not None


def test_autograd_graph_is_freed_with_its_loss():
    compiled = framejit.to_static(lambda x, w: (x * w).exp())
    for _ in range(3):
        x, w = x3(), x3().requires_grad_()
        loss = compiled(x, w)
        reference = weakref.ref(x)
        del x
        loss.sum().backward()
        del loss
        gc.collect()
        assert reference() is None


def test_intermediate_tensors_are_not_kept_between_calls():
    compiled = framejit.to_static(lambda x: (x * 2).exp().sum())
    compiled(torch.ones(10))
    gc.collect()

    def tensors():
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    before = tensors()
    for _ in range(10):
        compiled(torch.ones(10))
    gc.collect()
    assert tensors() <= before


def temporary_function(source):
    namespace = {"graph_break": framejit.graph_break, "x": x3()}
    exec(compile(source, "temporary.py", "exec"), namespace)
    return namespace.pop("f")


def collect_code():
    gc.collect()  # what is found dropped after it holds more
    gc.collect()


def test_code_object_of_a_temporary_function_is_freed():
    fn = temporary_function("def f(x):\n    return x + 1\n")
    compiled = framejit.to_static(fn)
    compiled(x3())
    reference = weakref.ref(fn.__code__)
    del fn, compiled
    gc.collect()
    assert reference() is None


def test_code_object_of_a_temporary_callee_is_freed():
    def calls(x, fn):
        return fn(x).exp()

    fn = temporary_function("def f(x):\n    return (x + 1).sin()\n")
    compiled = framejit.to_static(calls)
    for _ in range(3):
        compiled(x3(), fn)
    reference = weakref.ref(fn.__code__)
    del fn
    collect_code()
    assert reference() is None


def test_code_object_of_a_temporary_frame_is_freed():
    fn = temporary_function("def f(match):\n    y = x + 1\n    graph_break()\n    return str(len(y.sin()))\n")
    compiled = framejit.to_static(lambda fn: re.sub("a", fn, "a"))
    with counts.counting() as counted:
        for _ in range(3):
            assert compiled(fn) == "3"
    assert counted.graphs == 2
    reference = weakref.ref(fn.__code__)
    del fn
    collect_code()
    assert reference() is None


def test_reset_frees_what_the_cache_holds():
    net = Net()
    compiled = framejit.to_static(shared)
    compiled(net, x3())
    framejit.reset()
    reference = weakref.ref(net)
    del net
    gc.collect()
    assert reference() is None


def test_reset_leaves_library_code_to_itself():
    """What torch wrote in Python is no frame to capture, whatever a break in it left behind before the reset."""

    @torch.no_grad()
    def breaks(match):
        y = x3() + 1
        framejit.graph_break()
        return str(len(y.sin()))

    called = torch.no_grad()(operator.methodcaller("group"))  # C code, so the decorator's is all the Python there is

    def counted():
        with counts.counting() as counted:
            assert framejit.to_static(lambda: re.sub("a", called, "a"))() == "a"
        return counted.captures, counted.graphs, counted.breaks

    before = counted()
    assert framejit.to_static(lambda: breaks(None) + "1")() == "31"
    framejit.reset()
    assert counted() == before


def test_class_and_code_made_by_a_captured_function_are_freed():
    def f(x):
        class Made:
            def __init__(self, value):
                self.value = value

            def doubled(self):
                return Made(self.value * 2)

        return Made(x).doubled().value, Made

    compiled = framejit.to_static(f)

    def make():
        with counts.counting() as counted:
            value, made = compiled(x3())
        assert torch.equal(value, x3() * 2) and (counted.graphs or counted.hits)
        return made

    assert freed(make)
    assert freed(lambda: make().doubled.__code__) is False  # the code of `f` has it as a constant


def test_code_compiled_by_the_program_is_freed():
    def call(fn, x):
        return fn(x) + 1

    compiled = framejit.to_static(call)

    def make():
        function = eval("lambda x: x * 3")
        with counts.counting() as counted:
            assert torch.equal(compiled(function, x3()), x3() * 3 + 1)
        assert counted.graphs == 1
        return function.__code__

    assert freed(make)


def test_functions_made_for_one_call_each_end_in_eager_with_one_warning(caplog):
    compiled = framejit.to_static(lambda fn, x: fn(x) + 1)
    for i in range(70):
        assert torch.equal(compiled(eval(f"lambda x: x * {i}"), x3()), x3() * i + 1)
    warnings = [r.getMessage() for r in caplog.records if r.name.startswith("framejit")]
    assert len(warnings) == 1 and "64 captures were guarded by an object that ended" in warnings[0]
    with counts.counting() as counted:
        compiled(eval("lambda x: x"), x3())
    assert counted.ops == 0


def test_full_graph_goes_on_to_raise():
    def f(x):
        framejit.graph_break()
        return x + 1

    compiled = framejit.to_static(f, full_graph=True)
    for _ in range(70):
        with pytest.raises(framejit.GraphBreakError):
            compiled(x3())


CLASS_USES = {
    "isinstance": lambda x, o: x * isinstance(o, int),
    "issubclass": lambda x, o: x * issubclass(type(o), (dict, list)),
    "attribute": lambda x, o: x * getattr(o, "missing", 3),
    "instance made": lambda x, o: (x.sin(), type(o)()),
    "key": lambda x, o: (x.sin(), {type(o): 1}),
    "item of a set": lambda x, o: (x.sin(), {type(o), int}),
    "item of a frozenset": lambda x, o: (x.sin(), frozenset([int, type(o)])),
    "method": lambda x, o: x * o.three(),
    "bases": lambda x, o: x * len(type(o).__mro__),
    "super": lambda x, o: x * o.four(),
}


@pytest.mark.parametrize("use", CLASS_USES)
def test_class_is_freed(use):
    class Base:
        def three(self):
            return 3

        def four(self):
            return 4

    def make():
        class Thing(Base):
            def four(self):
                return super().four() + 1

        compiled(x3(), Thing())
        with counts.counting() as counted:
            compiled(x3(), Thing())
        assert counted.hits and not counted.captures
        return Thing

    compiled = framejit.to_static(CLASS_USES[use])
    assert freed(make)
    assert freed(make)


LAST_WORDS = """
import codecs, os, sys
import framejit_bytecode._core
framejit_bytecode._core.capture_everything()

def words(kept=(b"last ", b"words")):
    return kept[0] + kept[1]

class Searcher:
    def __del__(self, words=words, write=os.write):
        write(1, words())

    def search(self, name):
        return None

codecs.register(Searcher().search)
"""


def test_finalizer_runs_when_the_interpreter_has_no_modules_any_more():
    done = subprocess.run([sys.executable, "-c", LAST_WORDS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, b"last words")


MEMBERS = """
import enum
import framejit_bytecode._core
framejit_bytecode._core.capture_everything()

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

print(Colour.BLUE.value, end="")
"""


def test_guards_of_an_object_that_ends_with_its_capture_are_not_checked():
    # The debug allocator overwrites what is freed.
    environment = dict(os.environ, PYTHONMALLOC="debug")
    done = subprocess.run(
        [sys.executable, "-c", MEMBERS], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert (done.returncode, done.stdout) == (0, b"2")


NAMESPACES = {
    "global": "def root(x):\n    return x * scale",
    "written": "def root(x):\n    global count\n    count = count + 1\n    return x * count",
    "other function": "def other(x):\n    return x + scale\ndef root(x):\n    return other(x) * scale",
    "closure": "def make():\n    k = scale\n    def inner(x):\n        return x * k + scale\n    return inner\nroot = make()",
    "closure in each call": "def make():\n    def inner(x):\n        return x * scale\n    return inner\ndef root(x):\n    return make()(x)",
    "class": "class C:\n    def get(self, x):\n        return x + scale\ndef root(x):\n    return C().get(x)",
    "generator": "def items(x):\n    yield x * scale\n    yield x\ndef root(x):\n    return sum(items(x))",
    "break": "import framejit\ndef root(x):\n    x = x * scale\n    framejit.graph_break()\n    return x + scale",
}


@pytest.mark.parametrize("source", NAMESPACES)
@pytest.mark.parametrize("reached", ["argument", "item", "converted"])
def test_namespace_of_exec_is_freed(source, reached):
    class Held:
        pass

    programs = {"argument": lambda x, given: given(x), "item": lambda x, given: given["root"](x)}
    framejit.reset()
    compiled = framejit.to_static(programs[reached]) if reached in programs else None

    def make():
        held = Held()
        namespace = {"held": held, "scale": 2.0, "count": 1}
        exec(NAMESPACES[source], namespace)
        eager = namespace["root"](x3())
        converted = framejit.to_static(namespace["root"]) if reached == "converted" else None
        for _ in range(2):
            namespace["count"] = 1
            given = namespace if reached == "item" else namespace["root"]
            assert torch.allclose(compiled(x3(), given) if compiled else converted(x3()), eager)
        return held

    for _ in range(3):
        assert freed(make)
    assert framejit.stats()["captures"] >= 3 and framejit.stats()["hits"] >= 3


def test_entry_goes_with_the_function_that_held_its_globals():
    """Which may be another than the one that was called; the namespace lives on, and is captured again."""
    namespace = {"scale": 2.0}
    exec("def first(x):\n    return x\ndef root(x):\n    return x * scale", namespace)
    compiled = framejit.to_static(lambda x, f: f(x) + 1)
    for scale in (2.0, 3.0):
        namespace["scale"] = scale
        for _ in range(2):
            assert torch.equal(compiled(x3(), namespace["root"]), x3() * scale + 1)
        namespace.pop("first", None)
    assert compiled.cache_info().entries == 1
