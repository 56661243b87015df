"""isinstance, issubclass and class patterns where classes answer for themselves (PEP 3119) or by their shape (PEP 544).

The answers of an ABC change when a class is registered with it later.
"""

import abc
import collections.abc
import functools
import sys
import typing

import pytest
import torch

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager

LOG = []


class Plain:
    pass


def make_abc():
    class Asked(abc.ABC):
        pass

    return Asked


QUESTIONS = {
    "isinstance": lambda o, asked: isinstance(o, asked),
    "issubclass": lambda o, asked: issubclass(type(o), asked),
    "tuple": lambda o, asked: (isinstance(o, (int, (str, asked))), issubclass(type(o), (int, (asked,)))),
    "virtual base's base": lambda o, asked: isinstance(o, asked.__mro__[0]),
    "not the tensor": lambda o, asked: isinstance(torch.ones(1), asked),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_registered_after_the_capture(name):
    question, asked = QUESTIONS[name], make_abc()

    def fn(x, o):
        return x + 1, question(o, asked)

    def agree():
        assert str(compiled(torch.ones(2), o)) == str(fn(torch.ones(2), o))

    o, compiled = Plain(), framejit.to_static(fn)
    with counts.counting() as counted:
        agree()
        agree()
        asked.register(Plain)
        agree()
        asked.register(torch.Tensor)
        agree()
        agree()
    assert counted.captures == 3 and counted.hits, counted
    assert not counted.breaks, counted


class TestUnions:
    @pytest.mark.skipif(sys.version_info < (3, 10), reason="unions of classes since 3.10 (PEP 604)")
    def test_registered_after_the_capture(self):
        asked, o = make_abc(), Plain()
        either = int | asked

        def fn(x, o):
            return x + 1, isinstance(o, either), issubclass(type(o), either), isinstance(3, either)

        compiled = framejit.to_static(fn)
        with counts.counting() as counted:
            for _ in range(2):
                for _ in range(2):
                    assert str(compiled(torch.ones(2), o)) == str(fn(torch.ones(2), o))
                asked.register(Plain)
        assert counted.hits and counted.captures == 2, counted


@pytest.mark.skipif(sys.version_info < (3, 10), reason="unions of classes since 3.10 (PEP 604)")
@pytest.mark.parametrize("subject", [1, "text", [1]], ids=repr)
@pytest.mark.parametrize("make", [lambda: int | list[int], lambda: str | collections.abc.Callable[..., int] | int])
def test_union_with_a_type_that_has_parameters(make, subject):
    """3.10 refuses it whatever is asked, later ones where they come to that type."""
    either = make()

    def fn(x, subject):
        try:
            return x + isinstance(subject, either)
        except TypeError as error:
            return x * 2, str(error)

    assert_same_as_eager(fn, torch.ones(2), subject, graphs=1, breaks=0)


def test_class_registered_before_stays():
    asked = make_abc()
    asked.register(Plain)

    def fn(x, o):
        return x + 1, isinstance(o, asked), isinstance([], collections.abc.Sequence)

    assert_same_as_eager(fn, torch.ones(2), Plain(), graphs=1, breaks=0)


def test_no_guard_where_no_class_answers_for_itself():
    class Derived(make_abc()):
        pass

    def fn(x, o):
        return x + 1, isinstance(o, Derived.__bases__[0]), isinstance(o, (int, Plain)), issubclass(Derived, abc.ABC)

    compiled = framejit.to_static(fn)
    with counts.counting() as counted:
        for _ in range(2):
            compiled(torch.ones(2), Derived())
            make_abc().register(Plain)
    assert counted.captures == 1 and counted.hits == 1, counted


def test_single_dispatch_on_a_class_registered_later():
    asked = make_abc()

    @functools.singledispatch
    def g(o):
        return "base"

    g.register(asked, lambda o: "asked")

    def fn(x, o):
        return x + 1, g(o)

    compiled, o = framejit.to_static(fn), Plain()
    for _ in range(2):
        for _ in range(2):
            assert compiled(torch.ones(2), o)[1] == fn(torch.ones(2), o)[1]
        asked.register(Plain)
    assert g(o) == "asked"


class Answering(type):
    def __instancecheck__(cls, o):
        LOG.append(("instance", str(type(o))))
        return cls.answer

    def __subclasscheck__(cls, subclass):
        LOG.append(("subclass", subclass))
        return cls.answer


class Answers(metaclass=Answering):
    answer = True


def make_hooked():
    class Hooked(abc.ABC):
        @classmethod
        def __subclasshook__(cls, subclass):
            LOG.append(("hook", subclass))
            return "wanted" in vars(subclass)

    return Hooked


class Wanted:
    wanted = True


class Disguised:
    def __init__(self, cls):
        self.cls = cls

    @property
    def __class__(self):
        LOG.append("asked for the class")
        return self.cls


OF_THE_PROGRAM = {
    "instance": lambda x: isinstance(3, Answers),
    "instance in a tuple": lambda x: isinstance(3, (str, (Answers,), bool)),
    "tensor": lambda x: isinstance(x, Answers),
    "subclass": lambda x: issubclass(int, Answers),
    "subclass in a tuple": lambda x: issubclass(int, (str, (Answers, bool))),
    "class of its own choice": lambda x: (isinstance(Disguised(int), int), isinstance(Disguised(str), (int, str))),
}


@pytest.mark.parametrize("name", OF_THE_PROGRAM)
def test_checks_of_the_program_run_in_each_call(name):
    program = OF_THE_PROGRAM[name]

    def fn(x):
        return x.sin(), program(x), x.cos()

    assert_same_as_eager(fn, torch.ones(3), graphs=None, breaks=None, fallbacks=None, cold_runs=4, miss=None)


def test_check_that_a_metaclass_gets_later():
    class Meta(type):
        pass

    asked = Meta("Asked", (), {})

    def fn(x):
        return x + 1, isinstance(3, asked), issubclass(int, asked)

    compiled = framejit.to_static(fn)
    assert [compiled(torch.ones(2))[1:] for _ in range(2)] == [(False, False)] * 2
    Meta.__instancecheck__ = Meta.__subclasscheck__ = lambda cls, o: True
    assert [compiled(torch.ones(2))[1:] for _ in range(2)] == [(True, True)] * 2


@pytest.mark.runs_once("a class keeps the answers of the eager run")
def test_hook_of_an_abc_runs_when_eager_asks_it():
    """Each class has a cache: a fresh one for each of the two."""

    def fn(x, hooked):
        answers = isinstance(3, hooked), isinstance(Wanted(), hooked), issubclass(Wanted, hooked)
        return x + 1, answers, len(LOG)

    def told(run):
        LOG.clear()
        hooked = make_hooked()
        return [str(run(torch.ones(2), hooked)) for _ in range(3)], list(LOG)

    for _ in range(2):
        assert told(framejit.to_static(fn)) == told(fn)


def test_answer_of_the_program_that_changes(monkeypatch):
    def fn(x):
        return x + 1, isinstance(3, (str, Answers)), isinstance(x, Answers)

    compiled = framejit.to_static(fn)
    for answer in (True, False, True):
        monkeypatch.setattr(Answers, "answer", answer)
        for _ in range(2):
            assert compiled(torch.ones(2))[1:] == (answer, answer)


@typing.runtime_checkable
class Sized(typing.Protocol):
    size: int


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match statements since 3.10")
class TestPatterns:
    def made(self, pattern):
        space = {"Answers": Answers, "asked": make_abc(), "Sequence": collections.abc.Sequence}
        lines = ["def fn(x, o):", "    match o:", f"        case {pattern}:", "            return x + 1, 1"]
        source = "\n".join([*lines, "        case _:", "            return x + 1, 0"])
        exec(compile(source, __file__, "exec"), space)
        return space["fn"], space["asked"]

    def test_class_registered_later(self):
        fn, asked = self.made("asked()")
        compiled = framejit.to_static(fn)
        with counts.counting() as counted:
            for expected in (0, 1):
                for _ in range(2):
                    assert compiled(torch.ones(2), Plain())[1] == fn(torch.ones(2), Plain())[1] == expected
                asked.register(Plain)
        assert counted.captures == 2 and not counted.breaks and counted.hits, counted

    def test_sequence_registered_later(self):
        class Pair:
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return (0, 1)[index]

        fn, _ = self.made("[0, 1]")
        compiled = framejit.to_static(fn)
        for expected in (0, 1):
            for _ in range(2):
                assert compiled(torch.ones(2), Pair())[1] == fn(torch.ones(2), Pair())[1] == expected
            collections.abc.Sequence.register(Pair)

    def test_class_that_answers_for_itself(self, monkeypatch):
        fn, _ = self.made("Answers()")
        compiled = framejit.to_static(fn)
        for answer in (True, False):
            monkeypatch.setattr(Answers, "answer", answer)
            for _ in range(2):
                LOG.clear()
                assert (compiled(torch.ones(2), 3)[1], LOG) == (answer, [("instance", "<class 'int'>")])


class TestProtocols:
    """Whether an object has the members is asked in each call, not kept by the class."""

    def test_member_set_later(self):
        def fn(x, o):
            return x + 1, isinstance(o, Sized)

        compiled, o = framejit.to_static(fn), Plain()
        for _ in range(2):
            assert compiled(torch.ones(2), o)[1] is isinstance(o, Sized) is False
        o.size = 3
        for _ in range(2):
            assert compiled(torch.ones(2), o)[1] is isinstance(o, Sized) is True

    def test_tensors_and_aliases(self):
        @typing.runtime_checkable
        class Shaped(typing.Protocol):
            def numel(self): ...

        def fn(x):
            return x + 1, isinstance(x, Shaped), isinstance([x], typing.Sequence), isinstance(x, typing.Hashable)

        assert_same_as_eager(fn, torch.ones(2), graphs=1, breaks=0)

    def test_member_set_in_the_call(self):
        def fn(x, o):
            before = isinstance(o, Sized)
            o.size = 3
            between = isinstance(o, Sized)
            del o.size
            return x + 1, before, between, isinstance(o, Sized), isinstance(Plain(), Sized)

        assert_same_as_eager(fn, torch.ones(2), Plain(), graphs=1, breaks=0)

    def test_method_that_is_none(self):
        @typing.runtime_checkable
        class Runs(typing.Protocol):
            def run(self): ...

        def fn(x, o):
            return x + 1, isinstance(o, Runs)

        compiled, o = framejit.to_static(fn), Plain()
        for run in (None, len, None):
            o.run = run
            for _ in range(2):
                assert compiled(torch.ones(2), o)[1] is isinstance(o, Runs) is (run is not None)

    def test_member_that_is_a_property_of_the_program(self):
        class Measured:
            @property
            def size(self):
                LOG.append("size")
                return 3

        def fn(x, o):
            return x.sin(), isinstance(o, Sized), x.cos()

        assert_same_as_eager(fn, torch.ones(2), Measured(), graphs=None, breaks=None, fallbacks=None, cold_runs=3)

    def test_member_that_is_a_descriptor_of_the_program(self):
        class Noting:
            def __get__(self, o, owner=None):
                LOG.append("size")
                return 3

            def __set__(self, o, value):
                LOG.append("set")

        class Measured:
            size = Noting()

        def fn(x):
            return x.sin(), isinstance(o, Sized), x.cos()

        o = Measured()
        assert_same_as_eager(fn, torch.ones(2), graphs=None, breaks=None, fallbacks=None, cold_runs=3)

    def test_protocol_without_a_check_at_run_time(self):
        class Unchecked(typing.Protocol):
            size: int

        def fn(x):
            try:
                return x + 1, isinstance(3, Unchecked)
            except TypeError as error:  # from 3.9 on
                return x, str(error)

        assert_same_as_eager(fn, torch.ones(2), graphs=None, breaks=None, fallbacks=None)

    def test_class_of_a_protocol(self):
        class Concrete(Sized):
            pass

        def fn(x):
            return x + 1, isinstance(Concrete(), Sized), isinstance(Plain(), Concrete)

        assert_same_as_eager(fn, torch.ones(2), graphs=1, breaks=0)


@pytest.mark.runs_once("what the function reaches is nested too deep to be compared")
@pytest.mark.parametrize("question", [isinstance, issubclass])
def test_types_that_are_nested_too_deep(question):
    types = (int,)
    for _ in range(30_000):
        types = (types,)

    def f(x):
        try:
            return x + question(str, types)
        except RecursionError:
            return x - 1

    compiled = framejit.to_static(f)
    with counts.expect_counts(captures=counts.at_least(1)):
        assert [compiled(torch.ones(1)).item() for _ in range(2)] == [f(torch.ones(1)).item()] * 2 == [0, 0]
