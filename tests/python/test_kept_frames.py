"""A frame that something keeps past its end, such as the traceback of an exception that was stored, keeps its variables."""

import dis
import gc
import sys
import weakref

import pytest
import torch

import framejit
from support import counts

KEPT, SEEN = [], []


class Box:
    pass


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def told():
    try:
        yield 1
    finally:
        SEEN.append("closed")


def keeps_in_a_list(x):
    try:
        raise ValueError(1)
    except ValueError as error:
        KEPT.append(error)
    y = x.sin()
    generator = told()
    first = next(generator)
    return y.cos() + first


def keeps_in_a_tuple_after_a_graph(x):
    y = x.sin()
    try:
        [][1]
    except IndexError as error:
        KEPT.append((error, error.__context__))
    generator = told()
    first = next(generator)
    return y.cos() + first


def keeps_in_an_attribute(x):
    box = Box()
    KEPT.append(box)
    y = x.sin()
    try:
        int("none")
    except ValueError as error:
        box.error = error
        y = y + 1
    generator = told()
    y = y * next(generator)
    print(end="")
    return y.cos()


def keeps_and_returns_from_the_handler(x):
    y = x.sin()
    try:
        int("none")
    except ValueError as error:
        KEPT.append(error)
        generator = told()
        return y.cos() * next(generator)


def keeps_the_cause(x):
    try:
        try:
            raise KeyError(1)
        except KeyError as error:
            raise ValueError(2) from error
    except ValueError as error:
        KEPT.append(error.__cause__)
    generator = told()
    y = x.sin() * next(generator)
    return y.cos()


def keep(function):
    try:
        function()
    except ValueError as error:
        KEPT.append(error)


def keeps_in_a_callee(x):
    def fail():
        raise ValueError(x)

    y = x.sin()
    keep(fail)
    generator = told()
    y = y * next(generator)
    return y.cos()


def keeps_the_frame(x):
    y = x.sin()
    KEPT.append(sys._getframe())
    generator = told()
    y = y * next(generator)
    return y.cos()


@framejit.not_to_static
def keep_the_callers_frame():
    KEPT.append(sys._getframe(1))


def is_kept_by_a_callee(x):
    y = x.sin()
    keep_the_callers_frame()
    print(end="")
    generator = told()
    y = y * next(generator)
    return y.cos()


def keeps_what_was_raised_in_a_loop(x):
    for k in range(3):
        try:
            if k == 1:
                raise ValueError(k)
            x = x.sin()
        except ValueError as error:
            KEPT.append(error)
        x = x + 1
    generator = told()
    return x * next(generator)


def keeps_none(x):
    y = x.sin()
    try:
        int("none")
    except ValueError as error:
        KEPT.append(str(error))
    generator = told()
    y = y * next(generator)
    print(end="")
    return y.cos()


PROGRAMS = [keeps_in_a_list, keeps_in_a_tuple_after_a_graph, keeps_in_an_attribute, keeps_and_returns_from_the_handler]
PROGRAMS += [keeps_the_cause, keeps_in_a_callee, keeps_the_frame, keeps_what_was_raised_in_a_loop, keeps_none]
PROGRAMS += [is_kept_by_a_callee]


def outcome(function):
    """What the call gave, whether the generator was closed by its end, and after what was kept has gone."""
    KEPT.clear()
    gc.collect()
    SEEN.clear()
    result = function(x3())
    gc.collect()
    at_the_end = list(SEEN)
    KEPT.clear()
    gc.collect()
    return result.tolist(), at_the_end, list(SEEN)


@pytest.mark.runs_once("a shadowed call is made twice, and each leaves a generator behind")
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_what_a_kept_frame_holds_lives_on(function):
    expected = outcome(function)
    compiled = framejit.to_static(function)
    for _ in range(4):
        assert outcome(compiled) == expected
    assert framejit.stats()["captures"] and framejit.stats()["hits"]


def test_reason_is_told():
    report = framejit.explain(is_kept_by_a_callee, x3())
    assert "HeldFrame" in [found.reason for found in report.breaks], report
    with counts.counting() as counted:
        framejit.to_static(keeps_none)(x3())
    assert "HeldFrame" not in counted.break_reasons, counted.break_reasons


def looks_at_its_code(x):
    y = x.sin()
    try:
        int("none")
    except ValueError as error:
        KEPT.append(error)
    traceback = KEPT[0].__traceback__
    seen = dis.Bytecode(traceback.tb_frame.f_code).dis()
    y = y.cos()
    print(end="")
    return y.tan(), seen == dis.Bytecode(traceback.tb_frame.f_code).dis()


@pytest.mark.runs_once("a shadowed call is made twice, and both keep an exception")
def test_code_of_its_own_frame_stays_the_same_to_who_asks_for_it():
    compiled = framejit.to_static(looks_at_its_code)
    for function in (looks_at_its_code, compiled, compiled, compiled):
        KEPT.clear()
        y, same = function(x3())
        assert torch.equal(y, x3().sin().cos().tan()) and same
    assert framejit.stats()["hits"]


def test_variables_of_a_kept_frame_can_be_read():
    compiled = framejit.to_static(keeps_in_a_list)
    for function in (keeps_in_a_list, compiled, compiled, compiled):
        KEPT.clear()
        function(x3())
        found = KEPT[0].__traceback__.tb_frame.f_locals
        assert sorted(found) == ["first", "generator", "x", "y"] and torch.equal(found["y"], x3().sin())


def test_tensors_of_a_frame_that_nothing_keeps_end_with_it():
    ends = []

    def f(x):
        y = x.sin()
        ends.append(weakref.ref(y))
        try:
            int("none")
        except ValueError as error:
            y = y + len(str(error))
        print(end="")
        return y.cos()

    compiled = framejit.to_static(f)
    for _ in range(3):
        compiled(x3())
    assert not any(reference() is not None for reference in ends)
