"""Generators: inlined where the trace consumes them, and what else can be done to one."""

from __future__ import annotations

import itertools

import torch

from .registry import Group

construct = Group("Generators")


def powers(value, count):
    out = value
    for _ in range(count):
        yield out
        out = out * value


@construct("generator in a for loop")
def generator_in_a_for_loop(x):
    out = torch.zeros(3)
    for power in powers(x, 4):
        out = out + power
    return out


@construct("yield from")
def yield_from(x):
    def both(a):
        yield from powers(a, 2)
        yield from (a.sin(), a.cos())

    return list(both(x))


@construct("yield from that returns a value")
def yield_from_that_returns_a_value(x):
    def inner(value):
        yield value + 1
        return value * 2

    def outer(value):
        result = yield from inner(value)
        yield result + 3

    return list(outer(x))


@construct("send")
def send_values(x):
    def running_mean():
        total, count = torch.zeros(3), 0
        mean = None
        while True:
            value = yield mean
            total, count = total + value, count + 1
            mean = total / count

    averager = running_mean()
    next(averager)
    return averager.send(x), averager.send(x * 3)


@construct("throw")
def throw_into_a_generator(x):
    def guarded(value):
        try:
            yield value + 1
        except ValueError as error:
            yield value * len(error.args)

    steps = guarded(x)
    first = next(steps)
    return first, steps.throw(ValueError("a", "b"))


@construct("close, with a finally inside")
def close_with_a_finally_inside(x):
    log = []

    def resource(value):
        try:
            while True:
                yield value
                value = value * 2
        finally:
            log.append("closed")

    steps = resource(x)
    out = next(steps) + next(steps)
    steps.close()
    return out, log


@construct("generator expression summed")
def generator_expression_summed(x):
    return sum(x * i for i in range(4))


@construct("generator expression with a condition")
def generator_expression_with_a_condition(x, y):
    return torch.stack(tuple(t.sin() for t in (x, y, x + y) if t.dim() == 1))


@construct("consumed by next, with a default")
def consumed_by_next_with_a_default(x):
    steps = powers(x, 2)
    return next(steps), next(steps), next(steps, None)


@construct("lazily consumed: effects in order")
def lazily_consumed_effects_in_order(x):
    order = []

    def produce():
        for i in range(3):
            order.append(f"made {i}")
            yield x * i

    out = []
    for value in produce():
        order.append("used")
        out.append(value + 1)
    return out, order


@construct("stopped early by break")
def stopped_early_by_break(x):
    order = []

    def produce():
        try:
            for i in itertools.count():
                yield x + i
        finally:
            order.append("cleaned up")

    for i, value in enumerate(produce()):
        if i == 2:
            break
    return value, order


@construct("endless generator and islice")
def endless_generator_and_islice(x):
    def endless(value):
        while True:
            value = value / 2
            yield value

    return list(itertools.islice(endless(x), 3))


@construct("pipeline of generators")
def pipeline_of_generators(x):
    scaled = (part * 2 for part in x.unbind())
    shifted = (part + 1 for part in scaled)
    return torch.stack(list(shifted))


@construct("generator handed to a function")
def generator_handed_to_a_function(x):
    def reduce_all(values):
        out = None
        for value in values:
            out = value if out is None else torch.maximum(out, value)
        return out

    return reduce_all(x * sign for sign in (1, -1, 2))


@construct("StopIteration value by hand")
def stop_iteration_value_by_hand(x):
    def once(value):
        yield value
        return value.sum()

    steps = once(x)
    first = next(steps)
    try:
        next(steps)
    except StopIteration as stop:
        return first, stop.value * 2


@construct("recursive generator over a tree")
def recursive_generator_over_a_tree(x):
    def leaves(tree):
        for item in tree:
            if isinstance(item, list):
                yield from leaves(item)
            else:
                yield item + 1

    return list(leaves([x, [x * 2, [x * 3]], x.sin()]))


@construct("two generators in step")
def two_generators_in_step(x):
    return [a - b for a, b in zip(powers(x, 3), powers(x.cos(), 3))]


@construct("any over a generator stops early")
def any_over_a_generator_stops_early(x):
    seen = []

    def check(n):
        seen.append(n)
        return n > 1

    return any(check(n) for n in range(5)), x * len(seen), seen


@construct("star of a generator in a call")
def star_of_a_generator_in_a_call(x):
    return torch.stack([*powers(x, 2)]), torch.max(*powers(x, 2))


@construct("generator given back to the caller", after=list)
def generator_given_back_to_the_caller(x):
    return powers(x.sin(), 3)


@construct("generator half consumed, then given back", after=list)
def generator_half_consumed_then_given_back(x):
    steps = powers(x, 3)
    next(steps)
    return steps


@construct("generator that raises")
def generator_that_raises(x):
    def failing():
        yield x + 1
        raise KeyError("no more")

    out = []
    try:
        for value in failing():
            out.append(value * 2)
    except KeyError as error:
        return out, error.args


@construct("iterator class with a generator __iter__")
def iterator_class_with_a_generator_iter(x):
    class Window:
        def __init__(self, values, size):
            self.values, self.size = values, size

        def __iter__(self):
            for start in range(len(self.values) - self.size + 1):
                yield self.values[start : start + self.size]

    return [window.sum() for window in Window(x, 2)]


@construct("coroutine driven by hand")
def coroutine_driven_by_hand(x):
    async def square(value):
        return value * value

    async def main(value):
        return await square(value) + 1

    try:
        main(x).send(None)
    except StopIteration as stop:
        return stop.value
