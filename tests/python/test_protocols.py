"""What programs reach through the interpreter's protocols: bound methods, classes, modules, namespaces, sets, matching."""

import builtins
import collections
import functools
import operator
import sys
import textwrap
import types
import warnings

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager
from support.source import define_function

OPEN = {"graphs": None, "breaks": None}
FROZEN = frozenset([object(), object()])


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


def check(program, *args, **options):
    return assert_same_as_eager(program, x3(), *args, **{**OPEN, **options})


class Holder:
    pass


def test_function_and_self_of_a_bound_method_are_guarded():
    def program(x, method):
        return x + 1, method.__func__.__code__.co_varnames, method.__self__.mark, method.__name__

    def first(self, a):
        pass

    def second(self, b, c):
        pass

    compiled = framejit.to_static(program)
    for mark in range(2):
        holder = Holder()
        holder.mark = mark
        for function in (first, second):
            method = types.MethodType(function, holder)
            with counts.counting() as counted:
                assert compiled(x3(), method)[1:] == program(x3(), method)[1:]
            assert counted.graphs or counted.hits


class Sequence:
    def __init__(self):
        self.calls = []

    def keys(self):
        self.calls.append("keys")
        return ["a", "b"]

    def __getitem__(self, key):
        return key * 2


def test_keys_are_asked_for_once():
    def program(x):
        source = Sequence()
        made = dict(source), collections.OrderedDict(source)
        made[0].update(source)
        return x + 1, made, source.calls

    check(program, breaks=0)


def test_methods_of_a_subclass_of_dict_with_too_many_arguments():
    class Ordered(collections.OrderedDict):
        pass

    def program(x, d):
        refused = 0
        for method in (d.items, d.values, d.keys):
            try:
                method(None)
            except TypeError:
                refused += 1
        return x + 1, refused

    check(program, Ordered(a=1), warm=False)


class Watched(types.ModuleType):
    def __setattr__(self, name, value):
        LOG.append(name)
        super().__setattr__(name, value)


LOG = []


def test_module_with_setattr():
    def program(x, module):
        module.value = 12
        return x + 1, module.value

    check(program, Watched("m"))


def test_text_of_a_module():
    def program(x):
        module = types.ModuleType("made")
        module.__file__ = "somewhere.py"
        return x + 1, repr(module)

    check(program, warm=False)


def test_overridden_import():
    def program(x):
        import math

        return x + 1, math

    real = builtins.__import__
    builtins.__import__ = lambda name, *rest: 5 if name == "math" else real(name, *rest)
    try:
        check(program)
    finally:
        builtins.__import__ = real


def test_names_of_a_namespace_that_is_a_dictionary_of_the_program():
    text = "X = 1\ndef put(v):\n    global X\n    X = v\ndef get():\n    return X\n"

    def program(x, ns):
        seen = [ns["X"]]
        ns["X"] = 5
        seen.append(ns["get"]())
        ns["put"](7)
        seen += [ns["X"], ns["get"]()]
        return x + 1, seen

    compiled = framejit.to_static(program)
    for _ in range(2):
        ns = {}
        exec(text, ns)
        with counts.counting() as counted:
            assert compiled(x3(), ns)[1] == [1, 5, 7, 7] and ns["X"] == 7
        assert counted.captures or counted.hits


def test_order_of_a_set_that_was_larger():
    sparse = set(range(1000))
    sparse -= set(range(990))

    def program(x, s):
        return x + 1, [v for v in s], list(s), sorted(s)

    check(program, sparse)
    check(program, frozenset(sparse))


def test_order_of_a_set_made_in_the_call():
    def program(x):
        made = set(range(1000))
        made -= set(range(990))
        return x + 1, made, list(made)

    compiled = framejit.to_static(program)
    for _ in range(2):
        assert list(compiled(x3())[1]) == list(program(x3())[1])


def test_objects_in_a_frozen_set_are_the_programs_own():
    def program(x):
        found = []
        for item in FROZEN:
            found.append(item)
        return x + 1, [any(item is known for known in FROZEN) for item in found]

    check(program)


def test_hash_of_a_container_of_objects():
    def program(x):
        made = (object(), object())
        return x + 1, hash(made) == hash(made), hash(FROZEN) == hash(FROZEN)

    check(program, warm=False)


def test_deque_that_reaches_itself():
    def program(x):
        holder = Holder()
        holder.items = collections.deque([1, holder])
        return x + 1, holder.items, holder

    compiled = framejit.to_static(program)
    for _ in range(2):
        _, items, holder = compiled(x3())
        assert items is holder.items and items[1] is holder


class StaticCall(type):
    __call__ = dict


class Named(metaclass=StaticCall):
    pass


class Answers(type):
    def __getattribute__(cls, name):
        return "got it" if name == "anything" else super().__getattribute__(name)


class Answering(metaclass=Answers):
    pass


class Counting(type):
    def __instancecheck__(cls, obj):
        LOG.append("asked")
        return obj == 3


class Three(metaclass=Counting):
    pass


def test_metaclasses():
    def program(x):
        return x + 1, Named(a=1), Answering.anything, isinstance(3, Three), isinstance(4, Three)

    check(program)


def test_super_shows_its_own_class():
    class Plain:
        def kind(self):
            return super().__class__

    def program(x):
        return x + 1, Plain().kind()

    check(program)


def test_classmethod_of_something_else():
    class Wrapping:
        @classmethod
        @functools.lru_cache(maxsize=None)
        def cached(cls, n):
            return n + 1

        typed = classmethod(int)

    def program(x):
        return x + 1, Wrapping.cached(3)

    check(program)


def test_generator_takes_the_value_of_another_iterators_end():
    class Ends:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration(42)

    def outer():
        value = yield from Ends()
        yield value

    def program(x):
        return x + 1, list(outer())

    check(program, breaks=0)


class Indexed(int):
    def __index__(self):
        return 42


def test_next_that_is_the_method_of_another_object():
    def program(x):
        numbers = iter([1, 2, 3])

        class Steps:
            __next__ = numbers.__next__

            def __iter__(self):
                return self

        steps = Steps()
        return x + 1, next(steps), next(steps), list(steps)

    check(program, warm=False)


def test_what_c_code_gives_back_is_the_programs_own():
    def annotated(a: int):
        return a

    def program(x, function):
        wrapped = classmethod(function)
        return x + 1, wrapped.__func__ is function, wrapped.__func__.__annotations__ is function.__annotations__

    check(program, annotated)


class NextOnly:
    def __next__(self):
        raise StopIteration


def test_next_alone_makes_no_iterable():
    def program(x, obj):
        try:
            return x, list(obj)
        except TypeError as error:
            return x + 1, str(error)

    check(program, NextOnly())


class Tree:
    def __init__(self, children):
        self.children = children

    def __len__(self):
        return len(self.children)

    def __getitem__(self, index):
        LOG.append(index)
        return self.children[index]


def test_list_slice_filled_from_an_object_of_the_program():
    def program(x, tree):
        copied = []
        copied[:] = tree
        return x + 1, [a is b for a, b in zip(copied, tree.children)], list(LOG)

    LOG.clear()
    check(program, Tree([Holder(), Holder()]), warm=False)


def test_int_of_a_subclass_with_index():
    def program(x):
        return x + 1, int(Indexed(7)), operator.index(Indexed(7))

    check(program, warm=False)


def test_except_with_a_tuple_of_something_else():
    def program(x):
        try:
            try:
                raise ValueError
            except (ValueError, 42):
                return x
        except TypeError as error:
            return x + 1, str(error)

    check(program)


def test_count_of_objects_that_compare_in_python():
    class Equal:
        def __init__(self):
            self.asked = 0

        def __eq__(self, other):
            self.asked += 1
            return True

    def program(x):
        one = Equal()
        return x + 1, collections.deque([1, one, 2]).count(3), [one, 4].index(3), one.asked

    check(program)


@pytest.mark.runs_once("the cache counts its calls")
def test_c_code_calls_back_what_is_cached():
    @functools.lru_cache(maxsize=None)
    def square(n):
        return n * n

    def program(x):
        return x + 1, list(map(square, [1, 2, 1])), square.cache_info().misses

    compiled = framejit.to_static(program)
    assert compiled(x3())[1:] == ([1, 4, 1], 2)
    assert compiled(x3())[1:] == ([1, 4, 1], 2) and square.cache_info().hits == 4


def test_memory_view_lives_as_long_as_its_name():
    def program(x):
        data = bytearray(range(10))
        view = memoryview(data)  # noqa: F841
        data[:] = data[::-1]
        try:
            data.append(1)
        except BufferError:
            return x + 1, bytes(data)

    check(program)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match came with 3.10")
@pytest.mark.parametrize(
    "names, pattern",
    [("('a', 'a')", "C(1, 2)"), ("('a',)", "C(1, a=1)"), ("(None,)", "C(1)"), ("'ab'", "C(1)"), ("['a']", "C(1)")],
)
def test_match_of_a_class_with_unfit_match_args(names, pattern):
    text = """
    class C:
        __match_args__ = {}
        a = 1

    def f(x):
        try:
            match C():
                case {}:
                    return x
        except TypeError as error:
            return x + 1, str(error)
    """
    check(define_function(textwrap.dedent(text).format(names, pattern)))


def test_function_of_warnings_that_is_replaced_later(monkeypatch):
    def program(x):
        return x + 1, warnings.formatwarning("text", UserWarning, "file", 3, "line")

    compiled = framejit.to_static(program)
    assert compiled(x3())[1] == program(x3())[1]
    monkeypatch.setattr(warnings, "_formatwarnmsg_impl", lambda message: "replaced")
    assert compiled(x3())[1] == program(x3())[1] == "replaced"


class Described:
    shared = Holder()


def namespace_of(kind):
    return dict(vars(kind))


def test_object_of_the_program_that_c_code_gives_is_not_copied():
    Described.shared.mark = 1

    def program(x):
        y = x + 1
        framejit.graph_break()
        found = Described.__dict__["shared"]
        again = namespace_of(Described)["shared"]
        return y, found is Described.shared, again is found, found.mark

    check(program)


def test_mark_on_an_object_that_c_code_gives_is_read_anew():
    def program(x):
        y = x + 1
        framejit.graph_break()
        return y * namespace_of(Described)["shared"].mark

    compiled = framejit.to_static(program)
    for mark in range(3):
        Described.shared.mark = mark
        with counts.counting() as counted:
            assert torch.equal(compiled(x3()), (x3() + 1) * mark)
        assert counted.graphs or counted.hits
