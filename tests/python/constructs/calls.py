"""Every way to pass and to take arguments, and what can be called."""

from __future__ import annotations

import functools

import torch

from .registry import Group

construct = Group("Calls")


def affine(value, weight=2.0, *, bias=0.5):
    return value * weight + bias


def total(*values, scale=1.0, **named):
    out = sum(values) * scale
    for name in sorted(named):
        out = out + named[name]
    return out


@construct("star-arguments at a call")
def star_arguments_at_a_call(x):
    return total(*[x, x * 2], x * 3)


@construct("several unpackings at a call")
def several_unpackings_at_a_call(x, y):
    return total(*(x, y), *[x], **{"scale": 2.0}, **{"extra": y})


@construct("star-arguments passed on")
def star_arguments_passed_on(x, y):
    def forward(*args, **kwargs):
        return total(*args, **kwargs)

    return forward(x, y, scale=0.5, bias=x.cos())


@construct("keyword-only argument")
def keyword_only_argument(x):
    return affine(x, bias=1.5) + affine(x)


@construct("positional-only argument")
def positional_only_argument(x):
    def blend(a, b, /, rate=0.25):
        return a * rate + b * (1 - rate)

    return blend(x, x.sin()) + blend(x, x, rate=0.5)


@construct("keyword arguments in another order")
def keyword_arguments_in_another_order(x, y):
    def subtract(left, right):
        return left - right

    return subtract(right=x, left=y)


@construct("default that is a list and is shared")
def default_that_is_a_list_and_is_shared(x):
    def remember(value, seen=[]):
        seen.append(value)
        return len(seen)

    return remember(x), remember(x * 2), remember.__defaults__[0][1]


@construct("default that is a tensor")
def default_that_is_a_tensor(x):
    def shift(value, by=torch.ones(3)):
        return value + by

    return shift(x) * shift(x, x)


@construct("missing argument caught")
def missing_argument_caught(x):
    try:
        return affine()
    except TypeError as error:
        return x + 1, str(error)


@construct("functools.partial")
def partial_positional(x):
    scale = functools.partial(torch.mul, x)
    return scale(2.0) + scale(x)


@construct("functools.partial with keywords, nested")
def partial_with_keywords_nested(x):
    outer = functools.partial(functools.partial(affine, weight=3.0), bias=x.sin())
    return outer(x) + outer(x, bias=0.0)


@construct("functools.partialmethod")
def partialmethod_of_a_class(x):
    return Layer(2.0).doubled(x)


class Layer:
    def __init__(self, weight):
        self.weight = weight

    def apply(self, value, times):
        return value * self.weight * times

    doubled = functools.partialmethod(apply, times=2)

    def __call__(self, value):
        return value + self.weight


def logged(prefix):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs), f"{prefix}:{fn.__name__}"

        return wrapper

    return decorate


@construct("decorator with arguments")
def decorator_with_arguments(x):
    @logged("layer")
    def hidden(value):
        return torch.relu(value)

    return hidden(x)


@construct("stacked decorators")
def stacked_decorators(x):
    def twice(fn):
        return lambda value: fn(fn(value))

    def plus_one(fn):
        return lambda value: fn(value) + 1

    @twice
    @plus_one
    def halve(value):
        return value / 2

    return halve(x)


@construct("decorator that is a class")
def decorator_that_is_a_class(x):
    class Counted:
        def __init__(self, fn):
            self.fn, self.calls = fn, 0

        def __call__(self, value):
            self.calls += 1
            return self.fn(value)

    @Counted
    def square(value):
        return value * value

    return square(square(x)), square.calls


@construct("recursion")
def recursion(x):
    return residual(x, 4)


def residual(value, depth):
    if depth == 0:
        return value
    return value + residual(torch.tanh(value), depth - 1)


@construct("mutual recursion")
def mutual_recursion(x):
    def even(value, n):
        return value if n == 0 else odd(value + 1, n - 1)

    def odd(value, n):
        return value if n == 0 else even(value * 2, n - 1)

    return even(x, 5)


@construct("lambdas in a dict")
def lambdas_in_a_dict(x):
    activations = {"relu": lambda value: value.clamp(min=0), "square": lambda value: value * value}
    return [activations[name](x) for name in ("square", "relu")]


@construct("bound method as a callback")
def bound_method_as_a_callback(x):
    layers = [Layer(1.0).apply, Layer(2.0).apply]
    for layer in layers:
        x = layer(x, times=2)
    return x


@construct("unbound method called by its class")
def unbound_method_called_by_its_class(x):
    return Layer.apply(Layer(3.0), x, 1) + torch.Tensor.mul(x, 2)


@construct("callable object")
def callable_object(x):
    return Layer(1.5)(Layer(0.5)(x))


@construct("function passed as an argument")
def function_passed_as_an_argument(x):
    def apply(fn, *args):
        return fn(*args)

    return apply(torch.add, x, x) + apply(lambda value: value.sin(), x)


@construct("call of the result of getattr")
def call_of_the_result_of_getattr(x):
    for name in ("sin", "exp", "abs"):
        x = getattr(x, name)()
    return getattr(torch, "no_such_function", torch.neg)(x)


@construct("map, filter and zip")
def map_filter_and_zip(x, y):
    scaled = map(lambda pair: pair[0] * pair[1], zip((x, y), (2, 3)))
    return list(scaled), list(filter(None, [0, 1, 2])), list(map(torch.add, (x, y), (y, y)))


@construct("sorted with a key")
def sorted_with_a_key(x):
    chunks = [x, x[:1], x[:2]]
    return [chunk * 2 for chunk in sorted(chunks, key=len, reverse=True)]


@construct("min, max, sum, any and all")
def min_max_sum_any_and_all(x):
    shapes = [len(part) for part in (x, x[1:], x[2:])]
    factor = min(shapes) + max(shapes, default=0) + sum(shapes, 1)
    return x * factor, any(n > 2 for n in shapes), all(shapes), max(x, x + 1, key=lambda t: t.shape[0])


@construct("nested unpacking of a result")
def nested_unpacking_of_a_result(x):
    def split(value):
        return value[0], (value[1], [value[2], value])

    first, (second, [third, *rest]) = split(x)
    return first + second * third, rest


@construct("star in an assignment")
def star_in_an_assignment(x):
    first, *middle, last = torch.arange(5.0).unbind()
    return x * first + last, middle


@construct("type(x) and isinstance dispatch")
def type_and_isinstance_dispatch(x):
    def describe(value):
        if isinstance(value, torch.Tensor):
            return value * 2
        if isinstance(value, (int, float)):
            return value + 1
        return [describe(item) for item in value]

    return describe([x, 3, (x, 2.5)]), type(x) is torch.Tensor, callable(describe)
