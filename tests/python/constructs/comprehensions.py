"""List, dict and set comprehensions."""

from __future__ import annotations

import torch

from .registry import Group

construct = Group("Comprehensions")


@construct("list comprehension")
def list_comprehension(x):
    return torch.stack([x * i for i in range(3)])


@construct("list comprehension with conditions")
def list_comprehension_with_conditions(x):
    return [x + i if i % 2 else x - i for i in range(6) if i != 3 if i > 0]


@construct("nested loops in a comprehension")
def nested_loops_in_a_comprehension(x, y):
    return [a * b for a in (x, y) for b in (x.sin(), y.cos())]


@construct("comprehension in a comprehension")
def comprehension_in_a_comprehension(x):
    rows = [[x[i] * x[j] for j in range(3)] for i in range(3)]
    return torch.stack([torch.stack(row) for row in rows])


@construct("dict comprehension")
def dict_comprehension(x):
    features = {name: fn(x) for name, fn in {"sin": torch.sin, "cos": torch.cos}.items()}
    return {name.upper(): value * 2 for name, value in features.items()}


@construct("set comprehension")
def set_comprehension(x):
    sizes = {part.shape[0] % 2 for part in (x, x[1:], x[2:])}
    return x * len(sizes), sizes


@construct("comprehension that unpacks")
def comprehension_that_unpacks(x, y):
    return [a + b * n for n, (a, b) in enumerate([(x, y), (y, x)], 1)]


@construct("comprehension over a closure")
def comprehension_over_a_closure(x):
    scale = 0.5

    def scaled(values):
        return [value * scale for value in values]

    return scaled([x, x + 1])


@construct("comprehension that hides a variable of the same name")
def comprehension_that_hides_a_variable_of_the_same_name(x):
    i = 10
    parts = [x + i for i in range(2)]
    return parts, x * i


@construct("comprehension in a class body")
def comprehension_in_a_class_body(x):
    class Schedule:
        rates = [0.1 * step for step in range(3)]

    return [x * rate for rate in Schedule.rates]


@construct("comprehension calling a function with state")
def comprehension_calling_a_function_with_state(x):
    count = 0

    def fresh():
        nonlocal count
        count += 1
        return count

    return [x * fresh() for _ in range(3)], count


@construct("comprehension that raises in the middle")
def comprehension_that_raises_in_the_middle(x):
    seen = []
    try:
        return [seen.append(i) or x / (1 // (2 - i)) for i in range(4)]
    except ZeroDivisionError:
        return x.sin(), seen


@construct("comprehension over rows of a tensor")
def comprehension_over_rows_of_a_tensor(x, y):
    return [row.sum() for row in torch.stack((x, y))]
