"""What C code tells a program about classes and about torch's switches is asked again where it can change.

Each program is called, what it reads is changed outside of it, and it is called again.
"""

import functools
import types

import numpy
import pytest
import torch

import framejit
from support import counts


class Named:
    """What the class is for."""


class NamedError(ValueError):
    pass


def set_in_class(name, value, cls=Named):
    def change():
        before = getattr(cls, name, KEPT)
        setattr(cls, name, value)
        KEPT.append(functools.partial(*((delattr, cls, name) if before is KEPT else (setattr, cls, name, before))))

    return change


CLASSES = {
    "__name__": (lambda: Named.__name__, set_in_class("__name__", "Other")),
    "__name__ of the type": (lambda: type(Named()).__name__, set_in_class("__name__", "Other")),
    "__qualname__": (lambda: Named.__qualname__, set_in_class("__qualname__", "Outer.Other")),
    "__module__": (lambda: Named.__module__, set_in_class("__module__", "elsewhere")),
    "__doc__": (lambda: Named.__doc__, set_in_class("__doc__", "Something else.")),
    "__dict__": (lambda: len(Named.__dict__), set_in_class("added", 1)),
    "name in __dict__": (lambda: "added" in Named.__dict__, set_in_class("added", 1)),
    "vars": (lambda: vars(Named).get("added"), set_in_class("added", 1)),
    "dir": (lambda: "added" in dir(Named), set_in_class("added", 1)),
    "repr": (lambda: repr(Named), set_in_class("__qualname__", "Outer.Other")),
    "format": (lambda: f"{Named} {[Named]} {(Named, 1)!r}", set_in_class("__module__", "elsewhere")),
    "text of an exception": (lambda: repr(NamedError(1)), set_in_class("__name__", "Other", NamedError)),
    "subclasses": (lambda: len(Named.__subclasses__()), lambda: KEPT.append(type("Sub", (Named,), {}))),
}
KEPT = []


def switched(setter, value, before):
    def change():
        setter(value)
        KEPT.append(functools.partial(setter, before))

    return change


SWITCHES = {
    "threads": (torch.get_num_threads, switched(torch.set_num_threads, 3, torch.get_num_threads())),
    "anomalies": (torch.is_anomaly_enabled, switched(torch.autograd.set_detect_anomaly, True, False)),
    "nan check": (
        torch.is_anomaly_check_nan_enabled,
        switched(functools.partial(torch.autograd.set_detect_anomaly, False), False, True),
    ),
    "matmul precision": (
        torch.get_float32_matmul_precision,
        switched(torch.set_float32_matmul_precision, "high", "highest"),
    ),
    "tf32": (
        lambda: torch.backends.cuda.matmul.allow_tf32,
        switched(functools.partial(setattr, torch.backends.cuda.matmul, "allow_tf32"), True, False),
    ),
    "tf32 of cudnn": (
        lambda: torch.backends.cudnn.allow_tf32,
        switched(functools.partial(setattr, torch.backends.cudnn, "allow_tf32"), False, True),
    ),
    "cudnn": (
        lambda: torch.backends.cudnn.benchmark,
        switched(functools.partial(setattr, torch.backends.cudnn, "benchmark"), True, False),
    ),
    "grad mode": (torch.is_grad_enabled, switched(torch._C._set_grad_enabled, False, True)),
    "default dtype": (torch.get_default_dtype, switched(torch.set_default_dtype, torch.float64, torch.float32)),
    "warnings": (torch.is_warn_always_enabled, switched(torch.set_warn_always, True, False)),
}


@pytest.fixture(autouse=True)
def put_back():
    yield
    for undo in KEPT:
        if isinstance(undo, functools.partial):
            undo()
    KEPT.clear()


@pytest.mark.parametrize("name", [*CLASSES, *SWITCHES])
def test_changed_after_the_capture(name):
    read, change = {**CLASSES, **SWITCHES}[name]

    def fn(x):
        return x * 2.0, str(read())

    compiled, x = framejit.to_static(fn), torch.ones(2)
    with counts.counting() as counted:
        before = [compiled(x)[1] for _ in range(3)]
        change()
        after = [compiled(x)[1] for _ in range(3)]
    assert (before[:2], after[:2]) == ([before[2]] * 2, [after[2]] * 2)
    assert (after[2], before[2] != after[2]) == (fn(x)[1], True)
    assert counted.hits >= 2, counted


def test_read_within_a_block_that_sets_it():
    """It is asked in the middle: at the start of the next call the answer is another one."""

    def fn(x):
        with torch.no_grad():
            inside = torch.is_grad_enabled()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return x * 2, inside, torch.is_grad_enabled(), cast

    compiled = framejit.to_static(fn)
    with counts.counting() as counted:
        for _ in range(3):
            assert str(compiled(torch.ones(2))) == str(fn(torch.ones(2)))
    assert (counted.captures, counted.hits) == (1, 2), counted


def test_names_of_classes_made_in_the_call():
    def fn(x):
        made = types.SimpleNamespace(kind=type(x).__name__)
        return x + 1, made.kind, type(made).__name__, Named.__name__

    compiled = framejit.to_static(fn)
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == fn(torch.ones(2))[1:]


def test_whether_a_tensor_was_made_in_inference_mode():
    def fn(x):
        return x + 1, x.is_inference(), torch.is_inference(x)

    compiled = framejit.to_static(fn)
    with torch.inference_mode():
        inference = torch.ones(2)
    with counts.counting() as counted:
        for x in (inference, torch.ones(2)) * 2:
            assert compiled(x)[1:] == (x is inference, x is inference)
    assert (counted.captures, counted.hits, counted.breaks) == (2, 2, 0), counted


def test_whether_a_result_was_made_in_inference_mode():
    def fn(x):
        return (x + 1).is_inference(), x.cos()

    compiled = framejit.to_static(fn)
    for mode in (False, True, False):
        with torch.inference_mode(mode):
            assert compiled(torch.ones(2))[0] is mode


def test_class_method_of_a_builtin_type_that_reads_what_can_be_set():
    """The table has it by its descriptor, which a bound class method hides."""

    def fn(x):
        return x + 1, float.__getformat__("double")

    with counts.expect_counts(captures=counts.at_least(1), breaks=1):
        assert framejit.to_static(fn)(torch.ones(2))[1] == fn(torch.ones(2))[1]


@pytest.mark.skipif(not hasattr(float, "__setformat__"), reason="gone since 3.11")
@pytest.mark.runs_once("what it sets is no state that is put back between two runs")
def test_class_method_of_a_builtin_type_that_sets_state():
    def fn(x):
        known = float.__getformat__("double")
        float.__setformat__("double", "unknown")
        x = x + (float.__getformat__("double") == "unknown")
        float.__setformat__("double", known)
        return x, known

    compiled = framejit.to_static(fn)
    for _ in range(3):
        x, known = compiled(torch.zeros(2))
        assert known == float.__getformat__("double") != "unknown"
        assert torch.equal(x, torch.ones(2))


def test_what_c_code_makes_for_each_read_is_not_one_object():
    array = numpy.arange(4.0)

    def f(x):
        first, second = array.flat, array.flat
        return x + 1, [next(first), next(first), next(second)], first is second

    compiled, x = framejit.to_static(f), torch.ones(2)
    with counts.counting() as counted:
        for _ in range(3):
            assert repr(compiled(x)) == repr(f(x))
    assert counted.graphs == 1 and counted.breaks and not counted.fallbacks
