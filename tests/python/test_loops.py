"""Loops over what capture knows are unrolled: for, while, break, continue, else, nesting, iterators as values."""

import torch

from support.same_as_eager import assert_same_as_eager

NUMBERS = (3, 1, 2)


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def test_for_over_a_range():
    def f(x):
        for i in range(5):
            x = x * 0.5 + i
        return x, i

    check(f)


def test_for_over_containers():
    def f(x, table):
        for n in NUMBERS:
            x = x + n
        for key, value in table.items():
            x = x * value + len(key)
        for a, (b, c) in [(1, (2, 3))]:
            x = x + a * b * c
        for letter in "ab":
            x = x + ord(letter)
        return x

    check(f, x3(), {"one": 1, "three": x3()})


def test_for_over_a_tensor():
    def f(x):
        total = 0
        for row in x:
            total = total + row * 2
        return total, [row.sum() for row in x]

    check(f, torch.arange(6.0).reshape(2, 3))


def test_empty_loops():
    def f(x):
        for i in []:
            x = x * 0
        for _ in range(0):
            x = x * 0
        else:
            x = x + 1
        while False:
            x = x * 0
        return x

    check(f)


def test_break_continue_else():
    def f(x):
        for i in range(10):
            if i == 2:
                continue
            if i == 5:
                break
            x = x + i
        else:
            x = x * 100
        for i in range(2):
            x = x + 1
        else:
            x = x * 3
        return x, i

    check(f)


def test_while_over_known_values():
    def f(x):
        n = 0
        while n < 4:
            n += 1
            if n == 2:
                continue
            x = x + n
        else:
            x = x * 2
        while True:
            n -= 1
            if not n:
                break
        return x, n

    check(f)


def test_while_over_a_list():
    def f(x):
        pending = [1, 2, 3]
        while pending:
            x = x + pending.pop()
        return x

    check(f)


def test_while_over_a_size():
    def f(x):
        while x.shape[0] > 1:
            x = x[: x.shape[0] // 2] + 1
        return x

    check(f, torch.arange(8.0))


def test_nested_loops_with_break():
    def f(x):
        for i in range(3):
            for j in range(3):
                if j > i:
                    break
                x = x + i * j
            else:
                continue
            x = x * 2
        return x, i, j

    check(f)


def test_loop_with_return_inside():
    def f(x):
        for i in range(5):
            x = x + 1
            if i == 3:
                return x, i
        return None

    check(f)


def test_loop_variable_survives():
    def f(x):
        for i, row in enumerate([x, x + 1]):
            pass
        return i, row, row + i

    check(f)


def test_iterator_as_a_value():
    def f(x):
        numbers = iter(NUMBERS)
        first = next(numbers)
        rest = [x * n for n in numbers]
        again = next(numbers, None)
        a, b = iter([1, 2]), iter([3])
        return first, rest, again, next(a) + next(b), list(a)

    check(f)


def test_iterator_returned_half_used():
    def f(x):
        numbers = iter([x, x + 1, x + 2])
        next(numbers)
        return numbers

    check(f, after=list)


def test_iterator_argument_is_advanced():
    def f(x, numbers):
        return x + next(numbers) + next(numbers)

    # Each `next` breaks.
    check(f, make=lambda: ((x3(), iter([1, 2, 3])), {}), miss=None, breaks=None, graphs=2)


def test_two_argument_iter():
    def f(x):
        values = [3, 2, 1, 0]
        return [x + n for n in iter(values.pop, 2)]

    check(f, breaks=None)


def test_exhausted_iterator_raises():
    check(lambda x: (x + 1, next(iter([]))), raises=StopIteration, graphs=None, breaks=None)


def test_long_loop():
    def f(x):
        total = 0
        for i in range(2000):
            total += i
        return x * total

    check(f)


def test_loop_with_many_operators():
    def f(x):
        for _ in range(100):
            x = x * 1.01 + 0.5
        return x

    check(f, ops=200)


def test_loop_over_modules():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 3) for _ in range(3)]

    def f(x):
        for layer in layers:
            x = layer(x).relu()
        return x

    check(f)


def test_loop_over_something_not_iterable():
    def f(x):
        y = x + 1
        for _ in 3:
            pass
        return y

    check(f, raises=TypeError, graphs=None, breaks=None)


def test_loop_over_a_zero_dimensional_tensor():
    def f(x):
        for _ in x.sum():
            pass
        return x

    check(f, raises=TypeError, graphs=None, breaks=None)
