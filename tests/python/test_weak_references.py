"""Weak references that the program holds are asked in the graph: torch's recurrent modules keep some of their weights."""

import io
import pickle
import weakref

import pytest
import torch
from torch import nn

import framejit
from support import counts
from support.same_as_eager import assert_same_as_eager


def x3():
    return torch.tensor([0.5, -1.5, 2.0])


class Held:
    def __init__(self, factor):
        self.factor = factor
        self.weight = torch.full((3,), factor)


@pytest.mark.parametrize("backend", ["aten", "native"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_module_is_one_graph(kind, layers, backend):
    torch.manual_seed(0)
    net = kind(3, 4, num_layers=layers, batch_first=True)
    compiled = framejit.to_static(kind(3, 4, num_layers=layers, batch_first=True), backend=backend)
    compiled.load_state_dict(net.state_dict())
    x = torch.linspace(-1, 1, 24).view(2, 4, 3)
    for turn in range(4):
        with counts.counting() as counted:
            results = [module(x)[0] for module in (net, compiled)]
            for result in results:
                result.square().mean().backward()
        torch.testing.assert_close(*results)
        assert counted.breaks == 0 and not counted.fallbacks and (turn == 0 or counted.hits)
    for one, other in zip(net.parameters(), compiled.parameters()):
        torch.testing.assert_close(one.grad, other.grad)
    with torch.no_grad():
        for module in (net, compiled):
            module.weight_ih_l0.mul_(0.5)
    torch.testing.assert_close(net(x)[0], compiled(x)[0])
    for module in (net, compiled):
        module.weight_ih_l0 = nn.Parameter(module.weight_ih_l0.detach() * 2)
    torch.testing.assert_close(net(x)[0], compiled(x)[0])


def test_object_and_tensor_behind_a_reference():
    held = Held(2.0)
    of_object, of_tensor = weakref.ref(held), weakref.ref(held.weight)

    def program(x):
        same = of_object() is held and of_tensor() is held.weight and of_tensor() is of_object().weight
        return x * of_object().factor + of_tensor(), same, of_object() is not None

    assert_same_as_eager(program, x3(), graphs=1, breaks=0)


def test_reference_whose_object_is_gone():
    held = [Held(2.0)]
    reference = weakref.ref(held[0])

    def program(x):
        there = reference()
        return x + 1 if there is None else x * there.factor

    compiled = framejit.to_static(program)
    for _ in range(2):
        with counts.expect_counts(breaks=0, fallbacks=0):
            assert torch.equal(compiled(x3()), x3() * 2)
    held.clear()
    for _ in range(2):
        with counts.expect_counts(breaks=0, fallbacks=0):
            assert torch.equal(compiled(x3()), x3() + 1)


def test_reference_that_is_replaced():
    objects = [Held(2.0), Held(3.0)]
    cell = [weakref.ref(objects[0])]
    compiled = framejit.to_static(lambda x: x * cell[0]().factor)
    for turn in range(4):
        cell[0] = weakref.ref(objects[turn % 2])
        assert torch.equal(compiled(x3()), x3() * objects[turn % 2].factor)
    assert compiled.cache_info().hits


@pytest.mark.runs_once("a shadowed call puts the attribute back for the second run, and so keeps the object")
def test_object_that_dies_between_two_questions():
    class Owner:
        pass

    owner = Owner()
    owner.held = Held(2.0)
    reference = weakref.ref(owner.held)

    def program(x, owner):
        before = reference() is not None
        owner.held = None
        return x + 1, before, reference()

    compiled = framejit.to_static(program)
    for _ in range(2):
        owner.held = Held(2.0)
        reference = weakref.ref(owner.held)
        result, before, after = compiled(x3(), owner)
        assert torch.equal(result, x3() + 1) and before and after is None


def test_reference_is_not_kept_alive():
    held = Held(2.0)
    reference = weakref.ref(held)
    compiled = framejit.to_static(lambda x: x * reference().factor)
    compiled(x3())
    compiled(x3())
    del held
    assert reference() is None


def function_of(factor):
    def scale(x):
        return x * factor

    return scale


@pytest.mark.parametrize("list_first", [True, False])
def test_function_that_the_frame_and_its_list_hold(list_first):
    def program(x):
        scale = function_of(2.0)
        reference = weakref.ref(scale)
        held = [scale]
        framejit.graph_break()
        if list_first:
            held.clear()
            before = reference() is None
            del scale
        else:
            del scale
            before = reference() is None
            held.clear()
        return x + 1, before, reference()

    assert_same_as_eager(program, x3(), graphs=None, breaks=None)


def test_object_that_two_containers_hold():
    def program(x):
        held = Held(2.0)
        reference = weakref.ref(held)
        first, second = [held], {"held": held}
        del held
        framejit.graph_break()
        del first
        before = reference() is None
        del second
        return x + 1, before, reference()

    assert_same_as_eager(program, x3(), graphs=None, breaks=None)


class Pickler(pickle.Pickler):
    def reducer_override(self, obj):
        return (int, (5,)) if getattr(obj, "__name__", None) == "scale" else NotImplemented


class PythonPickler(pickle._Pickler):
    reducer_override = Pickler.reducer_override


@pytest.mark.parametrize("kind", [Pickler, PythonPickler])
@pytest.mark.parametrize("pickler_first", [True, False])
def test_function_in_the_memo_of_a_pickler(kind, pickler_first):
    def pickler_goes_first(x):
        scale = function_of(2.0)
        reference = weakref.ref(scale)
        pickler = kind(io.BytesIO())
        pickler.dump(scale)
        del pickler
        del scale
        return x + 1, reference()

    def pickler_goes_last(x):
        scale = function_of(2.0)
        reference = weakref.ref(scale)
        pickler = kind(io.BytesIO())
        pickler.dump(scale)
        del scale
        before = reference() is None
        del pickler
        return x + 1, before, reference()

    program = pickler_goes_first if pickler_first else pickler_goes_last
    assert_same_as_eager(program, x3(), graphs=None, breaks=None, fallbacks=None, cold_runs=3)


def test_watched_function_of_somebody_else_ends_nothing():
    scale = function_of(2.0)
    reference = weakref.ref(scale)

    def program(x, held):
        del held
        return x * reference()(x)

    assert_same_as_eager(program, x3(), scale, graphs=1, breaks=0)


def test_many_numbers_and_texts_that_end_with_the_frame():
    def program(x):
        words = {f"word {i}": float(i) for i in range(20_000)}
        framejit.graph_break()
        factor = words["word 2"]
        del words
        return x * factor + 1

    with counts.counting() as counted:
        assert torch.equal(framejit.to_static(program)(x3()), x3() * 2 + 1)
    assert set(counted.break_reasons) <= {"UserBreak", "ContainerTooLarge"}, counted.break_reasons
