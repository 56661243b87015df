"""Frames look builtins up where eager's do: in what the function or its module had as `__builtins__`, and when.

From 3.10 on a function keeps the builtins that it was made with; before, a frame asks its module at each call, or shares
what a caller of the same module has (CPython's Objects/frameobject.c and Objects/funcobject.c).
"""

import textwrap

import pytest
import torch

import framejit

SOURCE = """
import framejit

def f(x):
    return x + len(x)

def behind_a_break(x):
    y = x + 1
    framejit.graph_break()
    return y + len(x)

def caller(x):
    return inner(x) * 2

def inner(x):
    return x + len(x)

def changes(x):
    globals()["__builtins__"] = {"len": lambda value: 100, "globals": globals}
    return x + len(x)

def call(function, x):
    return function(x)
"""
FOREIGN = {"len": lambda value: 100}


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def module():
    names = {"__name__": "sandbox"}
    exec(compile(textwrap.dedent(SOURCE), __file__, "exec"), names)
    return names


def replaced_for_a_while(names, fn):
    """What `fn` gives before, while its module has other builtins, and after: from here, and from its module."""
    own, results = names["__builtins__"], []

    def run():
        for _ in range(2):
            results.append(fn(x3()))
            results.append(names["call"](fn, x3()))

    run()
    names["__builtins__"] = FOREIGN
    run()
    names["__builtins__"] = own
    run()
    return results


def same(results, expected):
    assert [value.tolist() for value in results] == [value.tolist() for value in expected]


@pytest.mark.parametrize("name", ["f", "behind_a_break", "caller"])
def test_replaced_between_calls(name):
    names = module()
    expected = replaced_for_a_while(names, names[name])
    names = module()
    compiled = framejit.to_static(names[name])
    before = framejit.stats()["captures"]
    same(replaced_for_a_while(names, compiled), expected)
    assert framejit.stats()["captures"] > before


@pytest.mark.parametrize("first", [False, True])
def test_replaced_before_the_first_call(first):
    def results(wrap):
        names = module()
        own = names["__builtins__"]
        fn = wrap(names["f"])
        if first:
            fn(x3())
        names["__builtins__"] = FOREIGN
        found = [fn(x3()), fn(x3())]
        names["__builtins__"] = own
        return [*found, fn(x3())]

    same(results(framejit.to_static), results(lambda fn: fn))


def test_function_that_was_made_while_they_were_replaced():
    def results(wrap):
        names = module()
        own = names["__builtins__"]
        early = wrap(names["f"])
        found = [early(x3())]
        names["__builtins__"] = FOREIGN
        late = wrap(type(names["f"])(names["f"].__code__, names))
        found += [early(x3()), late(x3())]
        names["__builtins__"] = own
        return [*found, late(x3()), early(x3()), late(x3())]

    same(results(framejit.to_static), results(lambda fn: fn))


def test_under_the_hook():
    def results(wrap):
        names = module()
        own = names["__builtins__"]
        late = []

        def outer(x):
            framejit.graph_break()
            return [fn(x) for fn in (names["f"], *late)]

        run = wrap(outer)
        found = run(x3()) + run(x3())
        names["__builtins__"] = FOREIGN
        late.append(type(names["f"])(names["f"].__code__, names))
        found += run(x3())
        names["__builtins__"] = own
        return found + run(x3()) + run(x3())

    same(results(framejit.to_static), results(lambda fn: fn))


def test_changed_by_the_captured_function_itself():
    def results(wrap):
        names = module()
        fn = wrap(names["changes"])
        return [fn(x3())] + [names["f"](x3()), fn(x3())]

    same(results(framejit.to_static), results(lambda fn: fn))


def test_module_without_builtins():
    def results(wrap):
        names = module()
        fn = wrap(names["f"])
        found = [fn(x3())]
        del names["__builtins__"]
        for _ in range(2):
            try:
                found.append(fn(x3()))
            except NameError:
                found.append(torch.zeros(1))
        return found

    same(results(framejit.to_static), results(lambda fn: fn))
