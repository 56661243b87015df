"""Calls are inlined: every way to pass arguments, closures, lambdas, partials, recursion, decorators."""

import contextlib
import functools
import inspect
import operator

import pytest
import torch

import framejit
from support.counts import counting, expect_hit
from support.same_as_eager import assert_same_as_eager
from support.source import define_function

LOG = []


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def scaled(x, scale=2, shift=0.5):
    return x * scale + shift


def test_positional_keyword_and_default_arguments():
    check(lambda x: [scaled(x), scaled(x, 3), scaled(x, shift=1), scaled(shift=1, x=x), scaled(x, 3, 4)])


def test_keyword_only_and_positional_only():
    def callee(a, b=2, /, c=3, *, d=4, e):
        return a * b + c * d - e

    check(lambda x: [callee(x, e=1), callee(x, 5, e=x), callee(x, 5, 6, d=7, e=8), callee(x, c=9, e=1)])


def test_star_arguments():
    def callee(first, *rest, key=1, **more):
        return first + sum(rest) * key, list(more), more

    def f(x):
        values, options = [1, 2], {"key": 3, "extra": x}
        return callee(x, *values, **options), callee(*[x, x], *(3,), other=1, **{"last": 2}), callee(x)

    check(f)


def test_entry_function_with_star_arguments():
    def f(x, *rest, scale=1, **more):
        return x * scale + sum(rest), rest, more

    check(f, x3(), 1, 2.5)
    assert_same_as_eager(f, x3(), 1, kwargs={"scale": 3, "name": x3()})


def test_dict_and_list_of_star_arguments_are_copies():
    def callee(*rest, **more):
        more["new"] = rest
        return more

    def f(x):
        options = {"x": x + 1}
        return callee(**options), options

    check(f)


def test_lambda_and_function_in_a_container():
    def f(x):
        table = {"double": lambda v: v * 2, "sin": torch.sin, "scaled": scaled}
        return [fn(x) for fn in table.values()], table["double"](table["sin"](x))

    check(f)


def test_closure_reads_and_writes():
    def f(x):
        total = x

        def add(value):
            nonlocal total
            total = total + value

        add(1)
        add(x)
        return total

    check(f)


def test_closures_in_a_loop_share_their_variable():
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda v: v * i)
        return [fn(x) for fn in functions]

    check(f)


def test_default_argument_captures_loop_variable():
    check(lambda x: [fn(x) for fn in [lambda v, i=i: v * i for i in range(3)]])


def test_nested_closures_three_deep():
    def f(x):
        a = 2

        def middle():
            b = 3

            def inner(v):
                nonlocal a
                a += b
                return v * a

            return inner

        inner = middle()
        return inner(x), inner(x), a

    check(f)


def test_closure_escapes():
    def f(x):
        y = x + 1
        n = 0

        def get():
            return y

        def count():
            nonlocal n
            n += 1
            return n, y

        return get, count

    check(f, after=lambda result: (result[0](), result[1](), result[1]()))


def test_escaping_closure_shares_its_cell_with_an_outer_one():
    n = 5

    def f(x):
        def up():
            nonlocal n
            n += 1
            return n

        up()
        return x * n, up

    check(f, after=lambda result: (result[1](), n))


def test_lambda_with_defaults_escapes():
    check(lambda x: (x + 1, lambda a, b=x * 2, *, c=[x]: (a, b, c)), after=lambda result: result[1](1))


def test_function_attributes():
    def f(x):
        def callee(v):
            return v * callee.factor

        callee.factor = 3
        return callee(x), callee.__name__, callee.factor, callee

    check(f)


def test_partial():
    partial = functools.partial(scaled, scale=3)

    def f(x):
        inner = functools.partial(partial, shift=1)
        return partial(x), inner(x), functools.partial(torch.add, alpha=2)(x, x), inner.keywords

    check(f)


def test_order_of_keywords_of_a_partial():
    def named(*args, **keywords):
        return args, list(keywords.items())

    outside = functools.partial(functools.partial(named, 1, b=8), c=1, b=9)

    def f(x):
        inside = functools.partial(named, b=8)
        return x + 1, outside(a=1, b=2, c=3), outside(2, z=1), inside(a=1, b=2), inside(**{"z": x, "b": 1})

    check(f)


def test_partial_of_a_subclass_with_a_call_of_its_own():
    class Partial(functools.partial):
        def __call__(self, *args, **keywords):
            return "own", args, keywords, self.func, self.args

    class Plain(functools.partial):
        pass

    outside = Partial(max, 3)

    def f(x):
        return x + 1, outside(5), Partial(max, 1)(2, key=abs), Plain(max, 1)(2)

    check(f)


def test_partial_method():
    class Model:
        def run(self, x, n):
            return x * n

        twice = functools.partialmethod(run, n=2)

    model = Model()
    check(lambda x: model.twice(x))


def test_decorated_function():
    def logged(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            LOG.append(fn.__name__)
            return fn(*args, **kwargs) + 1

        return wrapper

    @logged
    @logged
    def callee(x, n=2):
        return x * n

    check(lambda x: (callee(x), callee(x, n=3), callee.__name__))


def test_decorator_applied_inside():
    def f(x):
        def twice(fn):
            return lambda v: fn(fn(v))

        @twice
        def callee(v):
            return v * 2

        return callee(x)

    check(f)


def test_recursion():
    def power(x, n):
        return x if n == 0 else power(x * x, n - 1) + n

    check(lambda x: power(x, 5))


def test_mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x.sin(), n - 1)

    def odd(x, n):
        return x + 1 if n == 0 else even(x.cos(), n - 1)

    check(lambda x: even(x, 5))


def test_call_of_a_callable_object():
    class Scale:
        def __init__(self, n):
            self.n = n

        def __call__(self, x, shift=0):
            return x * self.n + shift

    scale = Scale(2)
    check(lambda x: [scale(x), scale(x, shift=1), Scale(3)(x)])


def test_operator_functions():
    def f(x):
        return [
            operator.add(x, 1), operator.mul(x, x), operator.neg(x), operator.getitem(x, 0), operator.itemgetter(1)([x, x + 1]),
            operator.attrgetter("shape")(x), operator.methodcaller("sum")(x),
        ]  # fmt: skip

    check(f)


def test_functools_reduce():
    check(lambda x: functools.reduce(lambda a, b: a * b, [x, x + 1, x + 2], 2))


def test_lru_cache_of_a_pure_function():
    @functools.lru_cache(maxsize=None)
    def size(n):
        return n * 2

    check(lambda x: x * size(3) + size(3), breaks=None, graphs=None)


class Sizes:
    @functools.lru_cache(maxsize=None)
    def size(self, text):
        return len(text)


def test_graphs_around_a_method_whose_results_lru_cache_keeps():
    sizes = Sizes()

    def f(x):
        y = x.sin()
        return y * sizes.size("a text")

    check(f, breaks=1, graphs=2)


def test_singledispatch():
    @functools.singledispatch
    def describe(value):
        return "other"

    @describe.register(int)
    def _(value):
        return "int"

    check(lambda x: (x + 1, describe(1), describe("a")), breaks=None, graphs=None)


def test_too_many_arguments_to_a_callee():
    check(lambda x: scaled(x + 1, 1, 2, 3), raises=TypeError, graphs=None, breaks=None)


def test_unknown_and_missing_keyword_of_a_callee():
    check(lambda x: scaled(x + 1, unknown=1), raises=TypeError, graphs=None, breaks=None)
    check(lambda x: scaled(scale=2), raises=TypeError, graphs=None, breaks=None)
    check(lambda x: scaled(x, x=1), raises=TypeError, graphs=None, breaks=None)


def test_call_of_something_that_is_not_callable():
    check(lambda x: (x + 1)(), raises=TypeError, graphs=None, breaks=None)
    check(lambda x: x.grad(), raises=TypeError, graphs=None, breaks=None)


def test_generator_function_consumed_inside():
    def numbers(x, n):
        for i in range(n):
            yield x + i

    def delegating(x):
        yield from numbers(x, 2)
        yield x * 10

    check(lambda x: [sum(numbers(x, 3)), list(delegating(x)), [*numbers(x, 2)], max(i for i in range(4))], breaks=None)


def test_generator_stepped_by_hand():
    def numbers(x):
        got = yield x
        while True:
            got = yield x * got

    def f(x):
        generator = numbers(x)
        out = [next(generator), generator.send(2), generator.send(3)]
        generator.close()
        return out

    check(f, breaks=None)


def test_close_gives_what_the_generator_returns():
    def counting(x):
        total = x
        try:
            while True:
                total = total + (yield total)
        except GeneratorExit:
            return total * 2

    def f(x):
        generator = counting(x)
        next(generator)
        generator.send(3)
        return generator.close(), generator.close(), counting(x).close()

    check(f, breaks=None)


def test_generator_expression_in_consumers():
    def f(x):
        return [
            any(n > 2 for n in [1, 2, 3]), all(n > 2 for n in [1, 2, 3]), sum(x * n for n in range(3)),
            tuple(x + n for n in range(2)), dict((n, x - n) for n in range(2)), ",".join(str(n) for n in range(3)),
            min(n for n in (3, 1)), sorted(n for n in (3, 1)), set(n % 2 for n in range(4)), list(x for _ in range(2)),
        ]  # fmt: skip

    check(f)


def test_generator_escapes():
    def f(x):
        y = x + 1
        return (y * i for i in range(3))

    check(f, after=list, breaks=None)


def test_contextmanager_decorator():
    @contextlib.contextmanager
    def shifted(x):
        LOG.append("enter")
        try:
            yield x + 1
        finally:
            LOG.append("exit")

    def f(x):
        with shifted(x) as y:
            return y * 2

    check(f, breaks=None)


def test_inspect_like_introspection():
    check(lambda x: (x + 1, callable(scaled), scaled.__defaults__, scaled.__code__.co_argcount, scaled.__module__))
    check(lambda x: (x + 1, list(inspect.signature(scaled).parameters)), breaks=None)


def test_deep_call_chain():
    source = "def f0(x):\n    return x + 1\n" + "".join(f"def f{i}(x):\n    return f{i - 1}(x) * 1\n" for i in range(1, 60))
    check(define_function(source, "f59"))


def test_many_arguments():
    names = [f"a{i}" for i in range(300)]
    source = f"def g({', '.join(names)}):\n    return {' + '.join(names)}\ndef f(x):\n    return g({', '.join(f'{n}=x' for n in names)})\n"
    check(define_function(source))


def test_entry_function_with_many_locals_and_constants():
    lines = [f"    v{i} = {i} + {i}.5" for i in range(400)]
    total = " + ".join(f"v{i}" for i in range(400))
    check(define_function("def f(x):\n" + "\n".join(lines) + f"\n    return x * ({total})\n"))


def test_builtin_names_rebound_locally():
    def f(x):
        len = lambda value: 7  # noqa: A001, E731
        return x * len(x)

    check(f)


@pytest.mark.parametrize("name", ["add", "mul", "sub", "maximum", "atan2"])
def test_torch_function_by_name(name):
    check(lambda x: getattr(torch, name)(x, x + 1) + getattr(x, name)(x) if hasattr(x, name) else x + 1)


def test_function_without_tensor_operators():
    check(lambda n: [n * 2, str(n)], 3, graphs=0)


def test_function_that_returns_nothing():
    def f(x):
        x + 1

    check(f, graphs=None)


OF_A_SIGNATURE = {
    "__defaults__": (3.0,),
    "__kwdefaults__": {"shift": 4},
    "__annotations__": {"value": "torch.Tensor"},
    "__text_signature__": "(a, b)",
    "__signature__": inspect.Signature(),
    "__wrapped__": check,
    "__code__": (lambda one, two=1, *, shift=2: one).__code__,
}


@pytest.mark.parametrize("attribute", OF_A_SIGNATURE)
@pytest.mark.parametrize("when", ["before the call", "in the trace"])
def test_signature_is_what_the_function_says_now(attribute, when):
    def layer(value, scale=2.0, *, shift: int = 0):
        return value * scale + shift

    def change():
        setattr(layer, attribute, OF_A_SIGNATURE[attribute])

    def f(x, now):
        y = x.sin()
        if now:
            change()
        return y, str(inspect.signature(layer))

    compiled = framejit.to_static(f)
    x = torch.ones(3)
    first = [compiled(x, False)[1]]
    with expect_hit("the signature is guarded"):
        first.append(compiled(x, False)[1])
    assert first == ["(value, scale=2.0, *, shift: int = 0)"] * 2
    if when == "before the call":
        change()
    changed = compiled(x, when == "in the trace")[1]
    change()
    assert changed == f(x, False)[1] != first[0]


def test_keyword_arguments_given_twice_are_an_error_with_the_words_of_the_version():
    def g(**options):
        return options

    def f(x, options):
        y = x + 1
        try:
            return y, g(a=x, **options)
        except TypeError as error:
            return y * 2, str(error)

    compiled, x = framejit.to_static(f), torch.ones(2)
    with counting() as counted:
        for options in ({"b": 1}, {"a": 1}, {"b": 1}):
            assert repr(compiled(x, options)) == repr(f(x, options))
    assert counted.graphs and not counted.fallbacks


class Holder:
    def method(self, x):
        """Of the method."""
        return x * 2


OF_A_METHOD = {
    "__class__": lambda m, x: (m.__class__.__name__, isinstance(m, type(m)), m.__class__ is type(m)),
    "__call__": lambda m, x: m.__call__(x),
    "__eq__": lambda m, x: (m.__eq__(m), m == m),
    "__hash__": lambda m, x: m.__hash__() == hash(m),
    "__get__": lambda m, x: m.__get__(None, int)(x),
    "__doc__": lambda m, x: (m.__doc__, m.__name__, m.__qualname__),
    "__repr__": lambda m, x: m.__repr__() == repr(m),
    "missing": lambda m, x: hasattr(m, "missing"),
}


@pytest.mark.parametrize("made_inside", [True, False], ids=["made inside", "from outside"])
@pytest.mark.parametrize("read", OF_A_METHOD.values(), ids=OF_A_METHOD)
def test_attributes_of_a_bound_method(read, made_inside):
    method = Holder().method

    def f(x, m):
        m = Holder().method if made_inside else m
        try:
            return x + 1, read(m, x)
        except TypeError as error:
            return x + 2, str(error)

    compiled, x = framejit.to_static(f), x3()
    with counting() as counted:
        for _ in range(3):
            assert repr(compiled(x, method)) == repr(f(x, method))
    assert counted.graphs and counted.hits and not counted.fallbacks
