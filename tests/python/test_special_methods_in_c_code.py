"""Special methods in Python that C code calls: they run in each call, never at the capture."""

import abc
import collections
import enum
import functools
import gc
import itertools
import operator
import types
import weakref

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        LOG.append(("__index__", self.value))
        return self.value


class Overriding:
    """No tensor, but torch's functions ask it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        LOG.append(function.__name__)
        return len(args)


class Noted:
    """Each of its special methods says that it was called."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        LOG.append(("__eq__", self.value))
        return self.value == getattr(other, "value", other)

    def __hash__(self):
        LOG.append(("__hash__", self.value))
        return hash(self.value)

    def __lt__(self, other):
        LOG.append(("__lt__", self.value))
        return self.value < other.value

    def __bool__(self):
        LOG.append(("__bool__", self.value))
        return bool(self.value)

    def __add__(self, other):
        LOG.append(("__add__", self.value))
        return Noted(self.value + other.value)

    def __length_hint__(self):
        LOG.append(("__length_hint__", self.value))
        return 2


class Counting:
    def __init__(self, end):
        self.count, self.end = 0, end

    def __iter__(self):
        LOG.append("__iter__")
        return self

    def __next__(self):
        self.count += 1
        if self.count > self.end:
            raise StopIteration
        return self.count


def numbers():
    return iter([1, 2, 3, 4])


def insert(x):
    items = [1, 2, 3]
    items.insert(Index(1), 7)
    items[Index(0)] = 5
    del items[Index(2)]
    return items


def rotate(x):
    items = collections.deque([Noted(1), Noted(2)])
    items.rotate(Index(1))
    items.remove(Noted(1))
    return len(items), items.index(Noted(2))


def ordered(x):
    items = collections.OrderedDict([(Noted(1), 2)])
    items.move_to_end(Noted(1))
    return items[Noted(1)], items == collections.OrderedDict([(Noted(1), 2)])


def noting(name, answer):
    def method(cls, *args):
        LOG.append((name, cls.__name__))
        return answer() if callable(answer) else answer

    return method


NotedMeta = type(
    "NotedMeta",
    (type,),
    {
        "__len__": noting("__len__", 3),
        "__iter__": noting("__iter__", numbers),
        "__bool__": noting("__bool__", True),
        "__contains__": noting("__contains__", True),
        "__getitem__": noting("__getitem__", 5),
        "__hash__": noting("__hash__", 7),
        "__eq__": noting("__eq__", True),
        "__or__": noting("__or__", 9),
    },
)
NotedClass = NotedMeta("NotedClass", (), {})


NOTED_KEYS = {NotedClass: 1}
NOTED_ORDERED = collections.OrderedDict([(NotedClass, 2)])


class NotedMember(enum.Enum):
    ONE = 1

    def __bool__(self):
        LOG.append("__bool__")
        return False

    def __hash__(self):
        LOG.append("__hash__")
        return 1

    def __eq__(self, other):
        LOG.append("__eq__")
        return self is other

    def __len__(self):
        LOG.append("__len__")
        return 4


class NotedDict(dict):
    def keys(self):
        LOG.append("keys")
        return ["a"]

    def __getitem__(self, key):
        LOG.append(("__getitem__", key))
        return 5


def lacking(name):
    LOG.append(name)
    return len(LOG)


class Name(str):
    def __hash__(self):
        LOG.append("__hash__")
        return hash(str(self))

    def __eq__(self, other):
        LOG.append("__eq__")
        return str(self) == other


MODULE = types.ModuleType("module")
MODULE.__getattr__ = lacking
NOTED_DICT = NotedDict(a=1, b=2)


def named(**named):
    return sorted(named.items())


PROGRAMS = {
    "name of an attribute": lambda x: getattr(Noted(2), Name("value")),
    "name that a module lacks": lambda x: (LOG.clear(), MODULE.zork, MODULE.zork, list(LOG)),
    "getattr of a module": lambda x: (LOG.clear(), getattr(MODULE, "zork", None), hasattr(MODULE, "zork"), list(LOG)),
    "keywords from a dict": lambda x: named(**NOTED_DICT),
    "keywords from a dict made inside": lambda x: named(**NotedDict(c=3)),
    "format with a dict": lambda x: "{a} {b}".format(**NOTED_DICT),
    "length of a class": lambda x: len(NotedClass),
    "truth of a class": lambda x: 1 if NotedClass else 2,
    "list of a class": lambda x: list(NotedClass),
    "membership in a class": lambda x: 2 in NotedClass,
    "item of a class": lambda x: NotedClass[1],
    "union of a class": lambda x: NotedClass | int,
    "class as a key": lambda x: {NotedClass: 1}[NotedClass],
    "class as a key of a dict outside": lambda x: (NOTED_KEYS[NotedClass], len(NOTED_KEYS)),
    "class in a set": lambda x: len({NotedClass, 7}),
    "class that equals": lambda x: (NotedClass == 3, [NotedClass] == [3]),
    "truth of a member": lambda x: 1 if NotedMember.ONE else 2,
    "length of a member": lambda x: len(NotedMember.ONE),
    "member as a key": lambda x: {NotedMember.ONE: 1}[NotedMember.ONE],
    "member that equals": lambda x: (NotedMember.ONE == 3, NotedMember.ONE in [1, NotedMember.ONE]),
    "filter": lambda x: list(filter(lambda n: Noted(n < 3), [1, 2, 5])),
    "filter of None": lambda x: len(list(filter(None, [Noted(1), Noted(0)]))),
    "takewhile": lambda x: list(itertools.takewhile(lambda n: Noted(n < 3), [1, 2, 5, 1])),
    "dropwhile": lambda x: list(itertools.dropwhile(lambda n: Noted(n < 3), [1, 2, 5, 1])),
    "filterfalse": lambda x: list(itertools.filterfalse(lambda n: Noted(n < 3), [1, 2, 5, 1])),
    "compress": lambda x: list(itertools.compress([1, 2], [Noted(0), Noted(1)])),
    "groupby": lambda x: [len(list(group)) for _, group in itertools.groupby([Noted(1), Noted(1), Noted(2)])],
    "accumulate": lambda x: [n.value for n in itertools.accumulate([Noted(1), Noted(2)])],
    "reduce": lambda x: functools.reduce(operator.add, [Noted(1), Noted(2)]).value,
    "repeat": lambda x: list(itertools.repeat(1, Index(2))),
    "islice": lambda x: list(itertools.islice([1, 2, 3], Index(2))),
    "combinations": lambda x: list(itertools.combinations(Counting(3), Index(2))),
    "permutations": lambda x: list(itertools.permutations(Counting(2), 2)),
    "iter with a sentinel": lambda x: len(list(iter(functools.partial(next, map(Noted, [1, 2, 3])), Noted(3)))),
    "sorted by key": lambda x: sorted([3, 1, 2], key=Noted),
    "sorted": lambda x: [n.value for n in sorted([Noted(3), Noted(1)])],
    "max by key": lambda x: max([3, 1, 2], key=Noted),
    "sum": lambda x: sum([Noted(1), Noted(2)], Noted(0)).value,
    "any": lambda x: any([Noted(0), Noted(1)]),
    "Counter": lambda x: collections.Counter([Noted(1), Noted(1)]).most_common(1)[0][1],
    "set": lambda x: (len({Noted(1), Noted(1)}), len({Noted(1)} | {Noted(2)}), {Noted(1)} <= {Noted(1)}),
    "set of a list": lambda x: set([Noted(1), Noted(2)]) == set([Noted(2), Noted(1)]),
    "dict of pairs": lambda x: dict([(Noted(1), 2), (Noted(1), 3)]) == {Noted(1): 3},
    "dict.fromkeys": lambda x: len(dict.fromkeys([Noted(1), Noted(1)])),
    "equal tuples": lambda x: ((Noted(1), 2) == (Noted(1), 2), [Noted(1)] < [Noted(2)]),
    "list.index": lambda x: ([Noted(1), Noted(2)].index(Noted(2)), [Noted(1)].count(Noted(1))),
    "list": lambda x: (list(Counting(2)), tuple(Counting(2)), [*Counting(1)]),
    "zip": lambda x: (list(zip(Counting(2), Counting(3))), dict(zip("ab", Counting(2)))),
    "range": lambda x: (list(range(Index(2))), list(enumerate("a", Index(5))), "a" * Index(2)),
    "text": lambda x: ("x".center(Index(4)), "abc".find("c", Index(0)), chr(Index(65)), round(2.567, Index(1))),
    "operator.countOf": lambda x: (operator.countOf([Noted(1)], Noted(1)), operator.index(Index(2))),
    "insert": insert,
    "rotate": rotate,
    "OrderedDict": ordered,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_special_methods_run_in_each_call(name):
    program = PROGRAMS[name]

    def fn(x):
        return x.sin(), program(x), x.cos()

    assert_same_as_eager(fn, torch.ones(3), graphs=None, breaks=None, fallbacks=None, cold_runs=4, miss=None)


READS_OF_ORDERED = {
    "item": lambda x: (x.sin(), NOTED_ORDERED[NotedClass]),
    "get": lambda x: (x.sin(), NOTED_ORDERED.get(NotedClass)),
    "membership": lambda x: (x.sin(), NotedClass in NOTED_ORDERED),
    "values": lambda x: (x.sin(), list(NOTED_ORDERED.values())),
    "items": lambda x: (x.sin(), len(list(NOTED_ORDERED.items()))),
}


# Putting such a dictionary back, as assert_same_as_eager does, hashes its keys as well.
@pytest.mark.parametrize("read", READS_OF_ORDERED)
def test_ordered_dict_hashes_its_keys_in_each_call_as_often_as_eager(read):
    def hashes(fn):
        LOG.clear()
        return fn(torch.ones(3))[1], len(LOG)

    expected = hashes(READS_OF_ORDERED[read])
    compiled = framejit.to_static(READS_OF_ORDERED[read])
    with counts.counting() as counted:
        assert [hashes(compiled) for _ in range(3)] == [expected] * 3
    assert expected[1] > 0 and counted.graphs > 0


@pytest.mark.parametrize("name", ["insert", "sorted by key", "repeat"])
def test_break_names_the_method_that_c_code_calls(name):
    breaks = framejit.explain(lambda x: (x + 1, PROGRAMS[name](x)), torch.ones(3)).breaks
    assert any(found.reason == "UnknownCall" and "C code calls __" in found.detail for found in breaks), breaks


class Leaving:
    def __del__(self):
        LOG.append(tuple(sorted(["left", "the list"])))


def test_finalizer_that_c_code_runs_is_no_special_method():
    held = [[Leaving(), 1]]

    def fn(x):
        held[0].clear()
        return x + 1

    compiled = framejit.to_static(fn)
    for _ in range(2):
        held[0].append(Leaving())
        LOG.clear()
        with counts.counting():
            compiled(torch.ones(3))
        assert ("left", "the list") in LOG


class Own(dict):
    def keys(self):
        LOG.append("keys")
        return dict.keys(self)

    def __iter__(self):
        LOG.append("__iter__")
        return dict.__iter__(self)


class OwnItems(dict):
    def __getitem__(self, key):
        LOG.append(key)
        return dict.__getitem__(self, key)


OWN, OWN_ITEMS = Own(a=1), OwnItems(a=1)


def made_by_a_factory(x):
    table = collections.defaultdict(lambda: LOG.append("made") or 5)
    return table["a"], table["a"], dict(table)


OF_THE_PROGRAM = {
    "dict": lambda x: (dict(OWN), dict(OWN_ITEMS)),
    "two stars": lambda x: ({**OWN}, {**OWN_ITEMS}),
    "list": lambda x: (list(OWN), [key for key in OWN], len(OWN), "a" in OWN),
    "copy": lambda x: (OWN.copy(), list(OWN.items()), OWN.get("a")),
    "factory": made_by_a_factory,
    "index": lambda x: x.select(0, Index(1)),
}


@pytest.mark.parametrize("name", OF_THE_PROGRAM)
def test_objects_of_the_program(name):
    program = OF_THE_PROGRAM[name]

    def fn(x):
        return x.sin(), program(x), x.cos()

    def told(run):  # by hand: an account of what the run can reach would call these methods itself
        LOG.clear()
        result = repr(run(torch.ones(3)))
        return result, list(LOG)

    compiled = framejit.to_static(fn)
    with counts.counting() as counted:
        for _ in range(4):
            assert told(compiled) == told(fn)
    assert counted.hits


def test_index_of_the_program_that_changes():
    def fn(x, size):
        return x.reshape(size, -1)

    size, compiled = Index(2), framejit.to_static(fn)
    for value in (2, 3, 2):
        size.value = value
        assert compiled(torch.arange(6), size).shape == (value, 6 // value)


class Watcher:
    def __init__(self):
        self.seen = 0

    def died(self, reference):
        self.seen += 1


def test_what_the_collector_runs_meanwhile():
    watcher, ended = Watcher(), []

    class Cycle:
        def __init__(self):
            self.itself = self

        def __del__(self):
            ended.append(helper())

    def helper():
        return 1

    def fn(x):
        items = sorted([3, 1, 2]) + list(map(abs, range(50)))
        return x + len(items), [[n] for n in range(100)]

    compiled, references = framejit.to_static(fn), []
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(1, 1, 1)
        for _ in range(20):
            framejit.reset()
            references.append(weakref.ref(Cycle(), watcher.died))
            compiled(torch.ones(3))
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    left = [reference() for reference in references if reference() is not None]
    assert (watcher.seen, len(ended)) == (20, 20), [gc.get_referrers(one) for one in left]


class Collecting:
    collect = staticmethod(gc.collect)


def test_generator_that_the_collector_closes_while_c_code_runs():
    class Asked(abc.ABC):  # a hook in C, which calls collect() of the class it is asked about
        __subclasshook__ = operator.methodcaller("collect")

    def helper():
        return 1

    def closing(itself):
        try:
            yield
        finally:
            LOG.append(helper())

    def fn(x):
        try:
            isinstance(Collecting(), Asked)
        except AssertionError:  # the number of what was collected is no answer
            return x + 1

    compiled = framejit.to_static(fn)
    gc.collect()
    itself = []
    itself.append(closing(itself))
    next(itself[0])
    del itself
    LOG.clear()
    with counts.counting() as counted:
        compiled(torch.ones(3))
    assert (LOG, counted.breaks) == ([1], 0), counted


OVERRIDING = Overriding()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, o: (torch.add(x, o), x.sin()),
        lambda x, o: (torch.stack([x, o]), x.sin()),
        lambda x, o: torch.mul(x, OVERRIDING),
    ],
)
def test_torch_functions_ask_an_object_in_each_call(fn):
    LOG.clear()
    expected = fn(torch.ones(3), Overriding())
    compiled, once = framejit.to_static(fn), list(LOG)
    for _ in range(3):
        LOG.clear()
        result = compiled(torch.ones(3), Overriding())
        assert str(result) == str(expected) and LOG == once
    LOG.clear()
