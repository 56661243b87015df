"""A break in every place: `sin` before it and `cos` after it must both be in a graph."""

from __future__ import annotations

import contextlib

import torch

from .registry import Group

construct = Group("Breaks: graphs on both sides")


def breaking(name, **options):
    return construct(f"break {name}", both_sides=True, **options)


@breaking("in straight code, by a branch")
def in_straight_code_by_a_branch(x):
    y = x.sin()
    if y.sum() > 0:
        y = y * 2
    else:
        y = y - 3
    return y.cos()


@breaking("in straight code, by print")
def in_straight_code_by_print(x):
    y = x.sin()
    print("between")
    return y.cos()


@breaking("in straight code, by item()")
def in_straight_code_by_item(x):
    y = x.sin()
    return (y * round(y.sum().item(), 3)).cos()


@breaking("inside for")
def inside_for(x):
    for i in range(3):
        y = x.sin() + i
        print("step", i)
        x = y.cos()
    return x


@breaking("inside for over tensors")
def inside_for_over_tensors(x, y):
    out = []
    for value in (x, y):
        value = value.sin()
        if value.sum() > 0:
            value = value + 1
        out.append(value.cos())
    return out


@breaking("inside for over enumerate and zip")
def inside_for_over_enumerate_and_zip(x, y):
    out = []
    for i, (a, b) in enumerate(zip((x, y), (y, x))):
        value = (a * b).sin()
        print(i)
        out.append(value.cos())
    return out


@breaking("inside a nested for")
def inside_a_nested_for(x):
    for i in range(2):
        x = x.sin()
        for j in range(2):
            x = x + i * j
            print(i, j)
        x = x.cos()
    return x


@breaking("inside while")
def inside_while(x):
    n = 0
    while n < 3:
        x = x.sin()
        print(n)
        x = x.cos()
        n += 1
    return x


@breaking("by the condition of while")
def by_the_condition_of_while(x):
    y = x.sin().abs() + 1
    while y.sum() < 40:
        y = y * 2
    return y.cos()


@breaking("inside try")
def inside_try(x):
    y = x.sin()
    try:
        print("in try")
        y = y.cos()
    except ValueError:
        y = y - 1
    return y


@breaking("inside try, with an exception after it")
def inside_try_with_an_exception_after_it(x):
    y = x.sin()
    try:
        if y.sum() > 0:
            y = y + 1
        raise ValueError("after the break")
    except ValueError:
        y = y.cos()
    return y


@breaking("inside except")
def inside_except(x):
    y = x.sin()
    try:
        raise ValueError("first")
    except ValueError as error:
        print(error)
        y = y + 1
    return y.cos()


@breaking("inside finally")
def inside_finally(x):
    y = x.sin()
    try:
        y = y + 1
    finally:
        print("in finally")
        y = y.cos()
    return y


@breaking("inside with torch.no_grad")
def inside_with_no_grad(x):
    with torch.no_grad():
        y = x.sin()
        print("in with", torch.is_grad_enabled())
        y = y.cos()
    return y, torch.is_grad_enabled()


class Noting:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append(f"exit {kind}")
        return False


@breaking("inside with a user class")
def inside_with_a_user_class(x):
    noting = Noting()
    with noting:
        y = x.sin()
        if y.sum() > 0:
            y = y * 2
        y = y.cos()
    return y, noting.log


@contextlib.contextmanager
def noted(log):
    log.append("enter")
    try:
        yield
    finally:
        log.append("exit")


@breaking("inside with a contextmanager")
def inside_with_a_contextmanager(x):
    log = []
    with noted(log):
        y = x.sin()
        print("in with")
        y = y.cos()
    return y, log


def callee(value):
    value = value.sin()
    print("in the callee")
    return value.cos()


@breaking("inside an inlined callee")
def inside_an_inlined_callee(x):
    return callee(x + 1) * 2


@breaking("inside a callee two calls deep")
def inside_a_callee_two_calls_deep(x):
    def middle(value):
        return callee(value * 2) + 1

    return middle(x.abs()).tanh()


@breaking("inside a callee called in a loop")
def inside_a_callee_called_in_a_loop(x):
    for _ in range(2):
        x = callee(x)
    return x


@breaking("inside a method")
def inside_a_method(x):
    return Layer(2.0).forward(x)


class Layer:
    def __init__(self, scale):
        self.scale = scale

    def forward(self, value):
        value = value.sin() * self.scale
        if value.sum() > 0:
            self.scale = self.scale + 1
        return value.cos() * self.scale


@breaking("inside nn.Module.forward", args=lambda: (torch.tensor([0.5, -1.5, 2.0]), Gate()))
def inside_module_forward(x, module):
    return module(x) + 1


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, value):
        value = (value * self.weight).sin()
        if value.sum() > 0:
            value = value * 2
        return value.cos()


@breaking("inside a closure that writes a nonlocal")
def inside_a_closure_that_writes_a_nonlocal(x):
    count = 0

    def step(value):
        nonlocal count
        value = value.sin()
        count += 1
        print("step", count)
        return value.cos()

    return step(step(x)), count


@breaking("inside a comprehension")
def inside_a_comprehension(x):
    def step(value):
        print("step")
        return value * 2

    parts = [x.sin(), x.sin() + 1]
    return [part.cos() for part in [step(part) for part in parts]]


@breaking("inside a generator")
def inside_a_generator(x):
    def steps(value):
        for i in range(2):
            value = value.sin()
            print("made", i)
            yield value

    return [value.cos() for value in steps(x)]


@breaking("inside a lambda with a default")
def inside_a_lambda_with_a_default(x):
    step = lambda value, text="lambda": (print(text), value.cos())[1]  # noqa: E731
    return step(x.sin())


@breaking("with pending writes to a list and an attribute")
def with_pending_writes(x):
    noting = Noting()
    y = x.sin()
    noting.last = y
    noting.log.append(1)
    print(noting.log)
    noting.log.append(2)
    return noting.last.cos(), noting.log


@breaking("two in one expression")
def two_in_one_expression(x):
    y = x.sin()
    return (y * y.max().tolist() + y.min().tolist()).cos()


@breaking("in the argument of a call")
def in_the_argument_of_a_call(x):
    y = x.sin()
    return torch.add(y, y.sum().tolist(), alpha=2).cos()


@breaking("in a callee, then an exception leaves", raises=ValueError)
def in_a_callee_then_an_exception_leaves(x):
    y = callee(x)
    raise ValueError(tuple(y.shape))


@breaking("in the else of for and of try")
def in_the_else_of_for_and_of_try(x):
    try:
        y = x.sin()
    except ValueError:
        pass
    else:
        print("else of try")
    for _ in range(1):
        y = y + 1
    else:
        print("else of for")
    return y.cos()


@breaking("in the guard of an if with and")
def in_the_guard_of_an_if_with_and(x):
    y = x.sin()
    if y.dim() == 1 and y.sum() > 0 or y.max() > 0.5:
        y = y * 2
    return y.cos()
