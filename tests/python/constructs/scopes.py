"""Local, enclosing and global names, and the cells between them."""

from __future__ import annotations

import math

import torch

from .registry import Group

construct = Group("Scopes")

SCALE = 2.5
CALLS = 0
RUNNING = None


@construct("closure made by a factory")
def closure_made_by_a_factory(x):
    def make_scaler(factor):
        def scale(value):
            return value * factor

        return scale

    return make_scaler(2.0)(x) + make_scaler(-1.0)(x)


@construct("closure over a loop variable")
def closure_over_a_loop_variable(x):
    functions = [lambda value: value * i for i in range(3)]
    return [function(x) for function in functions]


@construct("default that keeps a loop variable")
def default_that_keeps_a_loop_variable(x):
    functions = []
    for i in range(3):
        functions.append(lambda value, i=i: value * i)
    return [function(x) for function in functions]


@construct("nonlocal counter")
def nonlocal_counter(x):
    calls = 0

    def layer(value):
        nonlocal calls
        calls += 1
        return torch.tanh(value) * calls

    return layer(layer(layer(x))), calls


@construct("nonlocal tensor rebound")
def nonlocal_tensor_rebound(x):
    total = torch.zeros(3)

    def accumulate(value):
        nonlocal total
        total = total + value

    accumulate(x)
    accumulate(x * 2)
    return total


@construct("cell shared by two closures")
def cell_shared_by_two_closures(x):
    state = x

    def push(value):
        nonlocal state
        state = state * value

    def peek():
        return state.sum()

    push(2.0)
    first = peek()
    push(3.0)
    return first, peek()


@construct("closures three deep")
def closures_three_deep(x):
    def outer(a):
        def middle(b):
            def inner(c):
                return a * b + c

            return inner

        return middle

    return outer(x)(2.0)(x.sin())


@construct("cell emptied by del")
def cell_emptied_by_del(x):
    scratch = x + 1

    def read():
        return scratch

    before = read()
    del scratch
    try:
        return read()
    except NameError:
        return before * 2


@construct("function that refers to itself by a cell")
def function_that_refers_to_itself_by_a_cell(x):
    def power(value, exponent):
        return value if exponent == 1 else value * power(value, exponent - 1)

    return power(x, 4)


@construct("global constant")
def global_constant(x):
    return x * SCALE + math.pi


@construct("global statement")
def global_statement(x):
    global CALLS
    CALLS += 1
    return x + CALLS


@construct("global set to a tensor")
def global_set_to_a_tensor(x):
    global RUNNING
    RUNNING = x.mean()
    return x - RUNNING


@construct("globals() by name")
def globals_by_name(x):
    return x * globals()["SCALE"]


@construct("del of a local")
def del_of_a_local(x):
    hidden = torch.relu(x)
    out = hidden + 1
    del hidden
    return out


@construct("deleted local read again")
def deleted_local_read_again(x):
    y = x.cos()
    del y
    try:
        return y
    except UnboundLocalError:
        return x.sin()


@construct("walrus in a condition")
def walrus_in_a_condition(x):
    if (n := x.shape[0]) > 2:
        return x / n
    return x


@construct("walrus in a comprehension")
def walrus_in_a_comprehension(x):
    partial_sums = [total := total + x * i if i else x for i in range(3)]
    return partial_sums, total


@construct("locals()")
def locals_as_a_dict(x):
    hidden = x * 2
    names = locals()
    return names["hidden"] + names["x"], sorted(names)


@construct("argument rebound and captured")
def argument_rebound_and_captured(x):
    def late():
        return x

    x = x.exp()
    return late()


@construct("builtin shadowed by a local")
def builtin_shadowed_by_a_local(x):
    def sum(values):
        return values[0] - values[1]

    return sum([x, x * 3])


@construct("function attribute as state")
def function_attribute_as_state(x):
    def step(value):
        step.calls += 1
        return value + step.calls

    step.calls = 0
    return step(step(x)), step.calls
