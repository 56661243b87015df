"""Strings, formatting, numbers and the math module: computed during capture, by Python itself."""

import math
import sys

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

NAME = "layer"


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def test_f_strings():
    def f(x):
        n, v = 3, 2.5
        return x + 1, [f"{n}", f"{NAME}.{n:03d}", f"{v:.2f}", f"{v!r:>8}", f"{NAME!s}", f"{n=}", f"{'q'!a}", f"{n:{n}}", f"a{{b}}", f""]  # noqa: F541

    check(f)


def test_f_string_of_shapes_and_dtypes():
    check(lambda x: (x + 1, f"{x.shape} {tuple(x.shape)} {x.dtype} {x.device} {x.ndim} {x.numel()} {x.size(0)}"))


def test_percent_and_format():
    check(lambda x: (x + 1, "%s-%d-%5.2f" % ("a", 3, 2.5), "{}-{1}".replace("1", "") .format("a", "b"), "{n:>4}".format(n=3), "%(k)s" % {"k": 1}))


def test_string_methods():
    def f(x):
        s = "  Hello World "
        return x + len(s), [
            s.strip(), s.lower(), s.upper(), s.split(), "-".join(["a", "b"]), s.replace("l", "L"), s.startswith("  H"), s.find("W"),
            "a,b".split(","), "abc".endswith(("c", "d")), "x".center(5, "*"), "a.b.c".rsplit(".", 1), "k=v".partition("="), "ab".encode(),
            "7".isdigit(), "abc".index("b"), "aXb".swapcase(), "5".zfill(3), "a" < "b", "a" + "b", "ab" * 2, s.count("l"), ord("a"), chr(98),
        ]  # fmt: skip

    check(f)


def test_string_methods_that_fail():
    check(lambda x: (x + 1, "abc".index("z")), raises=ValueError, graphs=None, breaks=None)
    check(lambda x: (x + 1, "a" + 1), raises=TypeError, graphs=None, breaks=None)
    check(lambda x: (x + 1, int("z")), raises=ValueError, graphs=None, breaks=None)


def test_integer_arithmetic():
    def f(x, n):
        return x + n, [n + 1, n - 1, n * 3, n // 2, n % 3, n**2, -n, +n, ~n, n << 2, n >> 1, n & 6, n | 8, n ^ 1, n / 2, abs(-n), divmod(n, 4)]

    check(f, x3(), 7)


def test_float_arithmetic():
    def f(x, v):
        return x * v, [v + 1, v - 1, v * 3, v // 2, v % 2, v**2, -v, v / 3, round(v), round(v, 1), int(v), v.is_integer(), float("inf"), float(3)]

    check(f, x3(), 2.75)


def test_mixed_and_large_numbers():
    check(lambda x: (x + 1, 2**100, True + True, 1 + 2.5, 3 + 2j, (1 + 2j) * 1j, 10**20 // 3, 7 == 7.0, hash(1) == hash(1.0)))


def test_comparisons_of_numbers():
    check(lambda x, n: (x + 1, n < 5, n <= 4, n == 4, n != 4, n > 3, n >= 5, 1 < n < 5, not n, n and 3, 0 or n, n is None), x3(), 4)


def test_conversions():
    check(lambda x: (x + 1, int("12"), int("ff", 16), float("2.5"), str(3.0), bool([]), complex(1, 2), repr("a"), bin(5), hex(255), oct(8), ascii("é")))


def test_math_functions():
    def f(x, v):
        return x * math.sqrt(v), [
            math.sin(v), math.floor(v), math.ceil(v), math.log(v), math.log2(8), math.exp(1), math.pi, math.prod([2, 3]), math.gcd(12, 18),
            math.isclose(v, v), math.inf, math.isnan(math.nan), math.pow(2, 3), math.trunc(v), math.hypot(3, 4), math.factorial(5), math.isqrt(17),
        ]  # fmt: skip

    check(f, x3(), 6.25)


def test_division_by_zero():
    check(lambda x, n: (x + 1, 1 // n), x3(), 0, raises=ZeroDivisionError, graphs=None, breaks=None)
    check(lambda x, n: (x + 1, 1.5 / n), x3(), 0, raises=ZeroDivisionError, graphs=None, breaks=None)


def test_math_domain_error():
    check(lambda x: (x + 1, math.sqrt(-1)), raises=ValueError, graphs=None, breaks=None)


def test_number_computed_from_sizes():
    def f(x):
        b, n = x.shape
        scale = 1 / math.sqrt(n)
        return x.reshape(n, b) * scale, x.new_zeros(b * n // 2), (b, n), x.size(-1) ** -0.5

    check(f, torch.arange(6.0).reshape(2, 3))


def test_conditions_on_known_values():
    def f(x, flag, name, count, items):
        if flag and name == "relu":
            x = x.relu()
        elif count:
            x = x + count
        if not items:
            x = x * 2
        if name in ("relu", "gelu") and len(name) > 3 or count is None:
            x = x - 1
        return x if x.dim() == 1 else x.flatten()

    check(f, x3(), True, "relu", 3, [])
    check(f, x3(), False, "other", 3, [1])
    check(f, x3(), False, "gelu", None, [1])


@pytest.mark.parametrize("number", [0, 1, -1, 2**62, 0.1, float("inf"), float("nan"), 1 + 2j])
def test_number_combined_with_a_tensor(number):
    check(lambda x, n: (x + n, x * n, n - x), x3(), number)


def test_numbers_that_a_tensor_does_not_take():
    check(lambda x: x + 2**64, raises=OverflowError, graphs=None, breaks=None)
    check(lambda x: True - x, raises=RuntimeError, graphs=None, breaks=None)


def test_number_types_stay():
    check(lambda x, n, v: (x + 1, n, v, type(n), type(v), n == v, [n] == [v]), x3(), True, 1)


def test_print_free_repr_of_objects():
    check(lambda x: (x + 1, repr([1, "a", None]), str({"k": (1, 2)}), repr(torch.float32), str(torch.device("cpu"))))


def test_hash_of_constants():
    check(lambda x: (x + 1, hash("abc"), hash((1, 2)), hash(None) == hash(None)))


def test_time_and_environment_are_read_each_time():
    import os
    import time

    def f(x):
        start = time.perf_counter()
        y = x + 1
        elapsed = time.perf_counter() - start
        return y, elapsed >= 0, elapsed < 60, os.environ.get("FRAMEJIT_NOT_SET"), os.getpid()

    check(f, breaks=None, graphs=None, warm=False)  # numbers are guarded by value, and `start` is another each time


def test_random_numbers_of_python_are_drawn_each_time():
    import random

    check(lambda x: (x * 2, random.random(), random.randint(0, 9), random.choice([1, 2, 3])), breaks=None, graphs=None)


@pytest.mark.skipif(not hasattr(float, "__getformat__"), reason="this Python's numbers are IEEE 754 always")
def test_format_of_floats_is_set_and_read_anew():
    set_format = getattr(float, "__setformat__", None) or getattr(float, "__set_format__", None)
    first = float.__getformat__("double")

    def f(x, name):
        y = x.sin()
        if set_format:
            set_format("double", name)
        return y, float.__getformat__("double")

    compiled = framejit.to_static(f)
    try:
        for name in ("unknown", first, "unknown", first):
            with counts.counting() as counted:
                assert compiled(x3(), name)[1] == (name if set_format else first)
            assert counted.graphs or counted.hits
    finally:
        if set_format:
            set_format("double", first)


def test_recursion_limit_is_read_anew():
    limit = sys.getrecursionlimit()
    compiled = framejit.to_static(lambda x: x * sys.getrecursionlimit())
    x = torch.ones(3)
    assert compiled(x)[0] == limit
    try:
        sys.setrecursionlimit(limit + 100)
        assert compiled(x)[0] == limit + 100
    finally:
        sys.setrecursionlimit(limit)
