"""super() where it is not called in the usual way: subclasses of it, and methods that are kept."""

import queue

import torch

import framejit
from support.same_as_eager import assert_same_as_eager


def test_subclass_of_super():
    class OwnSuper(super):
        def __init__(self, *args):
            looked_at = super(OwnSuper, self)
            looked_at.__init__(*args)

    class Base:
        def run(self, x):
            return x * 2

    class Child(Base):
        def run(self, x):
            return OwnSuper(Child, self).run(x) - 1

    assert_same_as_eager(lambda x: Child().run(x + 1), torch.ones(3), graphs=None, breaks=None)


def test_method_of_c_that_a_class_overrides_held_over_a_break():
    class Beside:
        pass

    class Own(Beside, list):
        def append(self, item):
            held = super().append
            framejit.graph_break()
            held(item)

    def f(x):
        items = Own()
        items.append(x + 1)
        return items[0] * 2, len(items)

    assert_same_as_eager(f, torch.ones(3), graphs=None, breaks=None)


class Queue(queue.SimpleQueue):
    def get(self, *args):
        method = super().get
        framejit.graph_break()
        return method(*args)


def test_method_of_c_that_is_told_its_class_held_over_a_break():
    def f(x):
        waiting = Queue()
        waiting.put(x + 1)
        return waiting.get().sin(), waiting.empty()

    assert_same_as_eager(f, torch.ones(3), graphs=None, breaks=None, cold_runs=2)
