"""Globals, cells, class bodies and names: read, written, deleted, imported inside captured code."""

import builtins
import inspect
import math
import sys

import pytest
import torch

import framejit
from support.same_as_eager import assert_same_as_eager
from support.source import define

COUNTER = 0
LOG = []
TABLE = {}


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, *args, **options):
    return assert_same_as_eager(fn, *(args or (x3(),)), **options)


def test_global_is_written():
    def f(x):
        global COUNTER
        COUNTER += 2
        COUNTER = COUNTER * 3
        return x * COUNTER

    check(f)


def test_global_tensor_is_written():
    def f(x):
        global CREATED
        CREATED = x + 1
        return CREATED * 2

    check(f)


def test_global_is_deleted():
    globals()["TEMPORARY"] = 3

    def f(x):
        global TEMPORARY
        y = x * TEMPORARY
        del TEMPORARY
        return y

    check(f)


def test_global_written_by_a_callee_of_another_module():
    other = define("COUNT = 0\ndef bump(n):\n    global COUNT\n    COUNT += n\n    return COUNT\n")
    bump = other["bump"]
    check(lambda x: (x * bump(2), bump(3)))


def test_missing_global():
    check(lambda x: x + 1 + NEVER_DEFINED, raises=NameError, graphs=None, breaks=None)  # noqa: F821


def test_unbound_local():
    def f(x):
        y = x + 1
        if x is None:
            z = y
        return z

    check(f, raises=UnboundLocalError, graphs=None, breaks=None)


def test_unbound_cell():
    def f(x):
        def inner():
            return late

        y = x + 1
        inner()
        late = y
        return late

    check(f, raises=NameError, graphs=None, breaks=None)


def test_nonlocal_of_the_surroundings_is_written():
    count, items = 0, []

    def f(x):
        nonlocal count
        count += 1
        items.append(count)
        return x * count

    check(f)


def test_nonlocal_tensor_is_written_and_deleted():
    state = torch.zeros(3)

    def f(x):
        nonlocal state
        state = state + x
        y = state
        del state
        return y

    check(f)


def test_import_inside():
    def f(x):
        import math as m
        from math import pi, tau

        import torch.nn.functional as functional

        return functional.relu(x) * m.e + pi - tau

    check(f)


def test_class_defined_inside():
    def f(x):
        class Local:
            base = 2

            def __init__(self, n):
                self.n = n

            def run(self, v):
                return v * self.n + self.base

        return Local(3).run(x)

    check(f, breaks=None, warm=False)  # classes are guarded by identity, and this one is new each time


def test_variables_reused_with_other_types():
    def f(x):
        y = 1
        y = [y, x]
        y = y[1] + y[0]
        y = (y, "a")
        return y

    check(f)


def test_del_of_locals_items_and_attributes():
    class Holder:
        pass

    def f(x):
        a, b = x + 1, {"k": 1, "l": 2}
        holder = Holder()
        holder.one, holder.two = 1, a
        c = a
        del a, b["k"], holder.one
        items = [1, 2, 3, 4]
        del items[0], items[1:]
        return c, b, vars(holder), items

    check(f)


def test_builtins_module():
    check(lambda x: (x * builtins.len(x), builtins.max(1, 2), math.sqrt(4), sys.maxsize))


def test_chained_assignment_and_swaps():
    def f(x):
        a = b = c = x + 1
        a, b = b * 2, a * 3
        (a, (b, c)), d = (b, (c, a)), [a]
        return a, b, c, d

    check(f)


def test_starred_assignment():
    def f(x):
        first, *middle, last = [x, 1, 2, x + 1]
        *init, end = (1, 2)
        only, *rest = [x]
        a, *b = "abc"
        return first, middle, last, init, end, only, rest, a, b

    check(f)


def test_wrong_number_of_values_to_unpack():
    def few(x):
        a, b, c = x + 1, 2
        return a

    def many(x):
        a, b = [x + 1, 2, 3]
        return a

    def starred(x):
        a, b, *c = [x + 1]
        return a

    for f in (few, many, starred):
        check(f, raises=ValueError, graphs=None, breaks=None)


def test_unpacking_a_tensor():
    def f(x):
        a, b, c = x
        first, *rest = x.unbind()
        return a + b + c, first, rest

    check(f)


def test_walrus():
    def f(x):
        if (n := len(x)) > 2:
            y = x * n
        values = [last := v + 1 for v in range(3)]
        return y, n, values, last

    check(f)


def test_augmented_assignment():
    class Holder:
        pass

    def f(x):
        n, items, table, text = 2, [1], {"a": x}, "s"
        n += 1; n -= 2; n *= 8; n //= 3; n **= 3; n %= 7; n <<= 2; n >>= 1; n |= 9; n &= 13; n ^= 5  # noqa: E702
        n /= 2
        alias = items
        items += (2, 3)
        items *= 2
        table["a"] += 1
        text += "t"
        holder = Holder()
        holder.v = x
        holder.v = holder.v - 1
        y = x + 0
        z = y
        y += 1
        y *= x
        y @= torch.eye(3)
        return n, items, alias is items, table, text, holder.v, y, z

    check(f)


def test_global_list_and_dict_are_mutated():
    def f(x):
        LOG.append(x + 1)
        LOG.extend([1, 2])
        TABLE["x"] = x * 2
        TABLE.setdefault("y", []).append(LOG[-1])
        TABLE.update(z=3)
        return TABLE["x"], len(LOG)

    check(f)


def test_mutation_of_a_global_is_seen_by_a_later_read():
    def f(x):
        LOG.append(5)
        a = LOG[-1]
        LOG[0] = 6
        b = LOG.pop()
        return x * a + b, LOG

    check(f)


def test_name_of_module_and_function():
    check(lambda x: (x + 1, __name__, check.__name__))


def test_debug_constant():
    check(lambda x: x + 1 if __debug__ else x)


def own_frame(x):
    before = x.sin()
    frame = sys._getframe()
    after = x.cos()
    line = frame.f_lineno
    found = dict(frame.f_locals)
    return before, after, line, sorted(found), torch.equal(found["after"], after), frame.f_code.co_name


def frame_of_the_caller(x):
    before = x.sin()
    view = inspect.currentframe().f_locals
    after = before.cos()
    return after, sorted(view), torch.equal(view["before"], before)


@pytest.mark.parametrize("fn", [own_frame, frame_of_the_caller])
def test_own_frame_is_the_one_that_goes_on(fn):
    assert_same_as_eager(fn, torch.ones(3), graphs=1, breaks=None)
    assert "OwnFrame" in [found.reason for found in framejit.explain(fn, x3()).breaks]


def sizes(x):
    made = [x, 1]
    return x + 1, sys.getsizeof(made), sys.getrefcount(made)


def test_what_the_interpreter_counts_of_objects():
    assert_same_as_eager(sizes, torch.ones(3), graphs=0, breaks=1, fallbacks=None)
    assert "ObjectCounts" in [found.reason for found in framejit.explain(sizes, x3()).breaks]


def test_callee_that_looks_at_counts_runs_eagerly_from_its_beginning():
    def fn(x):
        return x.sin(), sizes(x.cos()), x.tan()

    assert_same_as_eager(fn, torch.ones(3), graphs=2, breaks=2)
