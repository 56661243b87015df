"""Classes that are used by the mro() of their metaclass, before they have an order of bases."""

import pytest
import torch

import framejit

LOG = []


def call(cls):
    return cls()


def call_with_argument(cls):
    return cls(1)


def make(cls):
    return object.__new__(cls)


def is_subclass(cls):
    return issubclass(cls, dict), issubclass(cls, cls), issubclass(int, cls)


def is_instance(cls):
    return isinstance(3, cls), isinstance(torch.ones(1), cls)


def raise_it(cls):
    raise cls


def assign_to_an_instance(cls):
    class Other:
        pass

    other = Other()
    other.__class__ = cls
    return type(other).__name__


def use_as_key(cls):
    return {cls: 1}[cls], cls in {cls}, len(dict.fromkeys([cls])), len({cls} | {cls})


def read_and_write(cls):
    cls.added = 5
    return cls.added, cls.method(2), cls.__mro__, hasattr(cls, "missing")


def read_through_super(cls):
    return super(cls, cls).method


USES = [
    call, call_with_argument, make, is_subclass, is_instance, raise_it, assign_to_an_instance, use_as_key,
    read_and_write, read_through_super,
]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_use_before_the_class_has_an_order(use):
    class Meta(type):
        def mro(cls):
            try:
                LOG.append(use(cls))
            except (TypeError, AttributeError) as error:
                LOG.append(str(error))
            return super().mro()

    def program(x):
        class Plain(metaclass=Meta):
            def method(self):
                return 1

        class Table(dict, metaclass=Meta):
            def method(self):
                return 2

        class Failure(Exception, metaclass=Meta):
            def method(self):
                return 3

        return x + 1

    def run(fn):
        LOG.clear()
        return fn(torch.ones(2)), list(LOG)

    compiled = framejit.to_static(program)
    result, expected = run(program)
    for _ in range(3):
        found, log = run(compiled)
        assert torch.equal(found, result)
        assert log == expected
    assert framejit.stats()["captures"]
