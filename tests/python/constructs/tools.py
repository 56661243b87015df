"""functools, itertools and operator."""

from __future__ import annotations

import functools
import itertools
import operator

import torch

from .registry import Group

construct = Group("functools, itertools, operator")


@construct("functools.wraps")
def functools_wraps(x):
    def timed(fn):
        @functools.wraps(fn)
        def wrapper(value):
            return fn(value) + 1

        return wrapper

    @timed
    def layer(value):
        """One layer."""
        return value.sin()

    return layer(x), layer.__name__, layer.__doc__, layer.__wrapped__(x)


@construct("functools.lru_cache on numbers")
def lru_cache_on_numbers(x):
    @functools.lru_cache(maxsize=None)
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x * fibonacci(10)


@functools.lru_cache(maxsize=8)
def rate_of(step):
    return 0.5**step


@construct("functools.lru_cache of a module")
def lru_cache_of_a_module(x):
    return x * rate_of(2) + rate_of(3)


@construct("functools.reduce")
def functools_reduce(x, y):
    return functools.reduce(torch.add, [x, y, x * y]), functools.reduce(lambda a, b: a * b, [x, y], 2.0)


@functools.singledispatch
def double(value):
    return value


@double.register(list)
def double_list(value):
    return [double(item) for item in value]


@double.register(torch.Tensor)
def double_tensor(value):
    return value * 2


@construct("functools.singledispatch")
def functools_singledispatch(x):
    return double([x, 3, [x + 1]])


class Lazy:
    def __init__(self, value):
        self.value = value
        self.computed = 0

    @functools.cached_property
    def norm(self):
        self.computed += 1
        return self.value.abs().sum()


@construct("functools.cached_property")
def functools_cached_property(x):
    lazy = Lazy(x)
    return x / lazy.norm + lazy.norm, lazy.computed


@functools.total_ordering
class Version:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    def __lt__(self, other):
        return self.number < other.number


@construct("functools.total_ordering")
def functools_total_ordering(x):
    return x * 2 if Version(1) >= Version(2) else x * 3


@construct("functools.cmp_to_key")
def functools_cmp_to_key(x):
    order = sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))
    return [x * n for n in order]


@construct("itertools.chain")
def itertools_chain(x, y):
    return [t + 1 for t in itertools.chain([x], (y,), itertools.chain.from_iterable([[x, y]]))]


@construct("itertools.product")
def itertools_product(x):
    return [x[i] * x[j] for i, j in itertools.product(range(2), repeat=2)]


@construct("itertools.combinations and permutations")
def itertools_combinations_and_permutations(x):
    pairs = itertools.combinations(x.unbind(), 2)
    return [a - b for a, b in pairs], len(list(itertools.permutations(range(3))))


@construct("itertools.accumulate")
def itertools_accumulate(x):
    return list(itertools.accumulate([x, x * 2, x * 3], torch.maximum)), list(itertools.accumulate([1, 2, 3]))


@construct("itertools.count, cycle and islice")
def itertools_count_cycle_and_islice(x):
    signs = itertools.cycle((1, -1))
    return [x * sign + n for n, sign in zip(itertools.islice(itertools.count(1, 2), 3), signs)]


@construct("itertools.repeat and zip_longest")
def itertools_repeat_and_zip_longest(x):
    return [a * b for a, b in itertools.zip_longest(itertools.repeat(x, 3), (1, 2), fillvalue=5)]


@construct("itertools.groupby")
def itertools_groupby(x):
    groups = itertools.groupby([1, 1, 2, 3, 3], key=lambda n: n % 2)
    return [x * sum(members) for _, members in groups]


@construct("itertools.takewhile, dropwhile, filterfalse")
def itertools_takewhile_dropwhile_filterfalse(x):
    numbers = [1, 2, 5, 1]
    low = list(itertools.takewhile(lambda n: n < 3, numbers))
    high = list(itertools.dropwhile(lambda n: n < 3, numbers))
    return x * len(low) + len(high), list(itertools.filterfalse(lambda n: n % 2, numbers))


@construct("itertools.starmap and compress")
def itertools_starmap_and_compress(x, y):
    return list(itertools.starmap(torch.sub, [(x, y), (y, x)])), list(itertools.compress([x, y], (0, 1)))


@construct("itertools.tee")
def itertools_tee(x):
    first, second = itertools.tee(part * 2 for part in x.unbind())
    return sum(first), list(second)


@construct("itertools.pairwise", since=(3, 10))
def itertools_pairwise(x):
    return [b - a for a, b in itertools.pairwise(x.unbind())]


@construct("operator functions")
def operator_functions(x, y):
    return operator.add(x, y), operator.matmul(x, y), operator.neg(x), operator.getitem([x, y], 1)


@construct("operator.itemgetter and attrgetter")
def operator_itemgetter_and_attrgetter(x):
    rows = [{"weight": 2.0, "value": x}, {"weight": 1.0, "value": x.sin()}]
    rows.sort(key=operator.itemgetter("weight"))
    return rows[0]["value"] + 1, operator.attrgetter("shape")(x)


@construct("operator.methodcaller")
def operator_methodcaller(x):
    return [operator.methodcaller(name)(x) for name in ("sin", "cos")]


@construct("operator.iadd on a list and on a tensor")
def operator_iadd_on_a_list_and_on_a_tensor(x):
    values, y = [x], x.clone()
    operator.iadd(values, [x + 1])
    operator.iadd(y, 1.0)
    return values, y


@construct("math functions on shapes")
def math_functions_on_shapes(x):
    import math

    return x / math.sqrt(x.shape[-1]), math.prod(x.shape), math.ceil(x.numel() / 2)
