"""What runs when the program lets go of an object: the rest of a generator that is closed, and __del__."""

import gc
import weakref
from collections.abc import Sequence

import pytest
import torch

import framejit
from support import counts
from support.counts import at_least
from support.same_as_eager import assert_same_as_eager

LOG = []


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(fn, **options):
    return assert_same_as_eager(fn, x3(), **options)


class Noted:
    def __enter__(self):
        LOG.append("enter")

    def __exit__(self, *unused):
        LOG.append("exit")


def endless(x):
    try:
        while True:
            yield x + 1
    finally:
        LOG.append("closed")


def with_context(x):
    with Noted():
        yield x + 1
        yield x + 2


@pytest.mark.parametrize("produce", [endless, with_context])
def test_loop_that_ends_early_closes_the_generator(produce):
    def f(x):
        for value in produce(x):
            break
        LOG.append("after")
        return value * 2

    check(f)


def test_generator_that_is_a_temporary():
    def f(x):
        value = next(endless(x))
        LOG.append("after next")
        found = any(True for _ in endless(x))
        LOG.append("after any")
        return value, found

    check(f)


def test_generator_whose_name_is_deleted_or_bound_anew():
    def f(x):
        first, second = endless(x), endless(x * 2)
        a = next(first)
        del first
        LOG.append("after del")
        b = next(second)
        second = None
        LOG.append("after None")
        return a + b

    check(f)


def test_generator_that_a_returning_function_drops():
    def inner(x):
        for value in endless(x):
            return value

    def f(x):
        value = inner(x)
        LOG.append("after")
        return value * 2

    check(f)


def test_generator_that_another_one_holds():
    def loops(x):
        for value in endless(x):
            yield value

    def f(x):
        for value in loops(x):
            break
        LOG.append("after")
        return value

    check(f)


def test_generator_that_lives_until_the_function_returns():
    def f(x):
        steps = endless(x)
        value = next(steps)
        LOG.append("after")
        return value

    check(f)


@pytest.mark.runs_once("the generator of each run is closed")
def test_generator_that_is_returned_stays_open():
    def f(x):
        steps = endless(x)
        value = next(steps)
        LOG.append("after")
        return value, steps

    value, steps = framejit.to_static(f)(x3())
    assert LOG.pop() == "after" and not LOG
    assert torch.equal(next(steps), value)
    del steps
    assert LOG.pop() == "closed"


@pytest.mark.parametrize("hold", [lambda g: zip(g, (1, 2)), lambda g: enumerate(zip((1, 2), g)), lambda g: map(abs, g)])
def test_generator_held_by_a_native_iterator(hold):
    def f(x):
        values = [value for value, _ in zip(hold(endless(x)), (1, 2))]
        LOG.append("after")
        return values

    check(f)


def test_iteration_over_a_sequence_of_the_program():
    class Doubles(Sequence):  # its __iter__ is a generator that yields in a `try`
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return [2.0, 4.0, 6.0][i]

    def f(x):
        for scale, shift in zip([1, 2, 3], Doubles()):
            x = x * scale + shift
        return x, next(iter(Doubles()))

    check(f)


def test_delegating_generator():
    def delegates(x):
        yield from endless(x)

    def f(x):
        for value in delegates(x):
            break
        LOG.append("after")
        return value

    check(f, graphs=None, breaks=None)


def test_generator_that_breaks_while_it_is_closed():
    def prints(x):
        try:
            yield x + 1
        finally:
            print("closing")

    def f(x):
        for value in prints(x):
            break
        LOG.append("after")
        return value.sin()

    check(f, graphs=None, breaks=at_least(1))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_generator_that_fails_while_it_is_closed():
    def fails(x):
        try:
            yield x + 1
        finally:
            LOG.append("fails")
            raise ValueError("nobody sees it")

    def f(x):
        for value in fails(x):
            break
        LOG.append("after")
        return value.sin()

    check(f, graphs=None, breaks=at_least(1), warm=False)  # pytest's hook for such errors is captured too


def test_suspended_in_an_except_handler_there_is_nothing_to_run():
    def recovers(x):
        try:
            yield x + 1
        except ValueError as error:
            yield x * len(error.args)

    def f(x):
        steps = recovers(x)
        return next(steps), steps.throw(ValueError("a", "b"))

    check(f)


class Watched:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(self.name)


def test_object_with_del_dies_where_eager_lets_it_die():
    def f(x):
        watched = Watched("died")
        y = x.sin()
        watched = None
        LOG.append("after")
        return y.cos()

    check(f, graphs=None, breaks=at_least(1))


def test_object_with_del_made_by_object_new():
    def f(x):
        watched = object.__new__(Watched)
        watched.name = "made by hand"
        del watched
        LOG.append("after")
        return x.sin()

    check(f, graphs=None, breaks=at_least(1))


def test_object_that_a_weak_dictionary_watches():
    def f(x):
        watched = Noted()
        table = weakref.WeakKeyDictionary()
        table[watched] = x + 1
        before = len(table)
        watched = None
        return x.sin(), before, len(table)

    check(f, graphs=None, breaks=at_least(1))


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


def test_objects_with_del_that_die_with_their_list():
    def f(x):
        items = [Counted(), Counted()]
        before = Counted.alive
        del items
        return x.sin(), before, Counted.alive

    check(f, graphs=None, breaks=at_least(1))


DROPS = [
    "table['a'] = None",
    "del table['a']",
    "table.clear()",
    "table.pop('a')",
    "table.popitem()",
    "table.update(a=1)",
    "gone = table.pop('a'); y = y + 1; gone = None",
    "owner.part = None",
    "del owner.part",
    "items.clear()",
    "items.pop()",
    "items.pop(0)",
    "items.remove(items[0])",
    "del items[:]",
    "items[:] = []",
    "items *= 0",
    "members.clear()",
    "members.pop()",
    "members.discard(next(iter(members)))",
    "members &= set()",
    "members.intersection_update(())",
]


@pytest.mark.parametrize("drop", DROPS)
def test_object_with_del_that_a_container_lets_go_of(drop):
    def make():
        owner = Noted()
        owner.part = Counted()
        return (x3(), {"a": Counted()}, owner, [Counted()], {Counted()}), {}

    source = f"def f(x, table, owner, items, members):\n    y = x.sin()\n    {drop}\n    return y, Counted.alive\n"
    namespace = {"Counted": Counted}
    exec(source, namespace)
    assert_same_as_eager(namespace["f"], make=make, graphs=None, breaks=at_least(1))


def test_local_that_is_not_read_again_holds_its_object():
    def f(x):
        holder = [Noted()]
        reference = weakref.ref(holder[0])
        y = x.sin()
        before = reference() is not None
        framejit.graph_break()
        return y.cos(), before, reference() is not None

    check(f, graphs=None, breaks=at_least(1))


def make_and_drop(x):
    thing = Noted()
    reference = weakref.ref(thing)
    y = x.sin()
    del thing
    return y, reference() is None


def test_object_that_dies_in_an_inlined_callee_that_broke():
    def f(x):
        y, dead = make_and_drop(x)
        return y.cos(), dead

    check(f, graphs=None, breaks=at_least(1))


def test_method_that_its_class_lets_go_of():
    def f(x):
        class Made:
            def method(self):
                return 6

        made = Made()
        before = made.method()
        reference = weakref.ref(Made.method)
        del Made.method
        return x.sin(), before, reference() is None

    check(f, graphs=None, breaks=at_least(1), warm=False)  # each call makes another class


def test_what_a_handler_lets_go_of_ends_with_the_call():
    """The exception names the frame that has raised it; its local named the exception for ever."""
    log = []

    def suspended():
        try:
            yield 1
        finally:
            log.append("closed")

    def program(x):
        held = suspended()
        next(held)
        try:
            raise ValueError(4)
        except ValueError as error:
            framejit.graph_break()
            log.append(error.args)
        return x * 2

    compiled = framejit.to_static(program)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            log.clear()
            compiled(x3())
            assert log == [(4,), "closed"]
    finally:
        gc.enable()


def test_set_made_before_a_break_that_is_moved():
    """The first pass, which could not break in the loop, had copied the set: when the copy died the capture did."""

    def program(x, n):
        locals()
        found = {n}

        def gen(v):
            yield v.cos()

        for item in gen(x):
            x = (x + item).sin()
            framejit.graph_break()
        return x, found

    compiled = framejit.to_static(program)
    compiled(x3(), 3)
    with counts.counting() as counted:
        compiled(x3(), 3)
    assert (counted.captures, counted.fallbacks) == (0, 0) and counted.hits, counted


def test_what_the_collector_runs_is_not_captured():
    """It works whenever it likes: what explain() told of a call was another thing each time."""

    class Cycle:
        def __init__(self):
            self.itself = self

        def __del__(self):
            LOG.append(torch.ones(1) + 1)

    def program(x):
        y = x.sin()
        gc.collect()
        return y.cos()

    gc.collect()
    Cycle()
    LOG.clear()
    report = framejit.explain(program, x3())
    assert (len(report.captures), len(LOG)) == (2, 1)
