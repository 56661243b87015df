"""State that a warm entry no longer reads because something would tell of its change: each way to change it is seen."""

import builtins
import gc
import threading
import types
from collections import OrderedDict

import pytest
import torch

import framejit
from support.counts import expect_hit

WARM = 6  # calls, after which an entry goes by what it found last

SCALE = 2.0


class Leaf(torch.nn.Module):
    factor = 3.0

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))
        self.register_buffer("offset", torch.ones(4))
        self.scale = 2.0

    def forward(self, x):
        return x * self.weight * self.scale * self.factor + self.offset


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
        self.items = [1.0, 2.0]
        self.table = {"a": 1.0}

    def forward(self, x):
        return self.leaf(x) * self.items[1] + self.table["a"]


class Warm:
    """Compares with eager without a look at anything else, which could change what is watched."""

    def __init__(self, fn):
        framejit.reset()
        self.fn = fn
        self.compiled = framejit.to_static(fn)

    def agrees(self, *args):
        expected, result = self.fn(*args), self.compiled(*args)
        assert torch.equal(result, expected)
        assert (result.dtype, result.requires_grad) == (expected.dtype, expected.requires_grad)


def warm(fn, *args):
    guarded = Warm(fn)
    for _ in range(WARM):
        guarded.agrees(*args)
    with expect_hit():
        guarded.agrees(*args)
    return guarded


def changed(guarded, *args):
    """The new value is seen at once, and by the calls that follow."""
    for _ in range(WARM):
        guarded.agrees(*args)


def other_leaf():
    leaf = Leaf()
    leaf.scale = 7.0
    return leaf


class OtherLeaf(Leaf):
    def forward(self, x):
        return x - self.weight


def setattr_hot(leaf):
    """By an instruction that the interpreter has specialised."""
    for value in range(100):
        leaf.scale = float(value)


def replace_dict(leaf):
    leaf.__dict__ = dict(leaf.__dict__, scale=9.0)


def put_back_in_other_order(leaf):
    value = vars(leaf).pop("scale")
    vars(leaf)["scale"] = value + 1


CHANGES = {
    "setattr": lambda m: setattr(m.leaf, "scale", 5.0),
    "setattr_hot": lambda m: setattr_hot(m.leaf),
    "object_setattr": lambda m: object.__setattr__(m.leaf, "scale", 5.0),
    "vars_item": lambda m: vars(m.leaf).__setitem__("scale", 5.0),
    "dict_update": lambda m: m.leaf.__dict__.update(scale=5.0),
    "dict_update_large": lambda m: m.leaf.__dict__.update({"scale": 5.0, **{f"n{i}": i for i in range(64)}}),
    "other_order": lambda m: put_back_in_other_order(m.leaf),
    "replaced_dict": lambda m: replace_dict(m.leaf),
    "shadowing_attribute": lambda m: setattr(m.leaf, "factor", 4.0),
    "shadowing_method": lambda m: vars(m.leaf).__setitem__("forward", lambda x: x + 100),
    "class_of_instance": lambda m: setattr(m.leaf, "__class__", OtherLeaf),
    "submodule": lambda m: setattr(m, "leaf", other_leaf()),
    "submodule_in_modules": lambda m: m._modules.__setitem__("leaf", other_leaf()),
    "modules_update": lambda m: m._modules.update(leaf=other_leaf()),
    "modules_replaced": lambda m: vars(m).__setitem__("_modules", {"leaf": other_leaf()}),
    "modules_cleared": lambda m: (m._modules.clear(), m._modules.update(leaf=other_leaf())),
    "parameter": lambda m: setattr(m.leaf, "weight", torch.nn.Parameter(torch.ones(4))),
    "parameter_in_parameters": lambda m: m.leaf._parameters.__setitem__("weight", torch.nn.Parameter(torch.ones(4))),
    "parameters_replaced": lambda m: vars(m.leaf).__setitem__(
        "_parameters", {"weight": torch.nn.Parameter(torch.zeros(4))}
    ),
    "parameter_data": lambda m: setattr(m.leaf.weight, "data", torch.full((4,), 3.0)),
    "parameter_data_of_other_dtype": lambda m: setattr(m.leaf.weight, "data", torch.ones(4, dtype=torch.float64)),
    "parameter_set": lambda m: m.leaf.weight.detach().set_(torch.full((4,), 8.0)),
    "parameter_data_of_other_shape": lambda m: setattr(m.leaf.weight, "data", torch.ones(3, 4)),
    "parameter_requires_no_grad": lambda m: m.leaf.weight.requires_grad_(False),
    "buffer_resized": lambda m: m.leaf.offset.resize_(1, 4).fill_(2.0),
    "buffer_requires_grad": lambda m: m.leaf.offset.requires_grad_(),
    "buffer_in_buffers": lambda m: m.leaf._buffers.__setitem__("offset", torch.zeros(4)),
    "buffer_deleted_and_set": lambda m: (delattr(m.leaf, "offset"), setattr(m.leaf, "offset", torch.zeros(4))),
    "list_item": lambda m: m.items.__setitem__(1, 4.0),
    "list_grown_in_front": lambda m: m.items.insert(0, 5.0),
    "list_slice": lambda m: m.items.__setitem__(slice(None), [3.0, 8.0]),
    "dict_item": lambda m: m.table.__setitem__("a", 2.0),
    "dict_cleared": lambda m: (m.table.clear(), m.table.update(a=4.0)),
    "dict_popped": lambda m: (m.table.pop("a"), m.table.setdefault("a", 6.0)),
    "hook": lambda m: m.leaf.register_forward_hook(lambda module, args, output: output + 10),
    "hook_in_dict": lambda m: m.leaf._forward_hooks.__setitem__(99, lambda module, args, output: output + 10),
    "training": lambda m: m.eval(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_change_of_a_module(change):
    model, x = Model(), torch.randn(4)
    guarded = warm(lambda y: model(y), x)
    change(model)
    changed(guarded, x)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_change_between_calls_that_change_something_else(change):
    model, x = Model(), torch.randn(4)
    guarded = warm(lambda y: model(y), x)
    for step in range(12):  # often enough that the dictionary is no longer watched
        model.leaf.unrelated = step
        guarded.agrees(x)
    change(model)
    changed(guarded, x)


def test_deleted_attribute():
    model, x = Model(), torch.randn(4)
    guarded = warm(lambda y: model(y), x)
    del model.leaf.scale
    with pytest.raises(AttributeError):
        guarded.compiled(x)
    model.leaf.scale = 3.0
    changed(guarded, x)


def test_change_of_a_class():
    model, x = Model(), torch.randn(4)
    guarded = warm(lambda y: model(y), x)
    Leaf.factor = 5.0
    try:
        changed(guarded, x)
    finally:
        Leaf.factor = 3.0
    changed(guarded, x)


def test_change_of_a_class_far_up():
    class Base:
        value = 1.0

    class Derived(Base):
        pass

    held = Derived()
    x = torch.randn(4)
    guarded = warm(lambda y: y * held.value, x)
    Base.value = 2.0
    changed(guarded, x)
    Derived.value = 3.0
    changed(guarded, x)
    del Derived.value
    changed(guarded, x)


def test_change_of_the_bases():
    class A:
        value = 1.0

    class B:
        value = 2.0

    class Derived(A):
        pass

    held = Derived()
    x = torch.randn(4)
    guarded = warm(lambda y: y * held.value, x)
    Derived.__bases__ = (B,)
    changed(guarded, x)


def test_slots():
    class Slotted:
        __slots__ = ("value",)

    held = Slotted()
    held.value = 2.0
    x = torch.randn(4)
    guarded = warm(lambda y: y * held.value, x)
    held.value = 3.0
    changed(guarded, x)
    Slotted.value = 4.0  # in place of the slot
    changed(guarded, x)


def test_numbers_at_one_address():
    """A container may get a new number where the old one was."""
    items = [1000]
    x = torch.zeros(4)
    guarded = warm(lambda y: y + items[0], x)
    for step in range(40):
        items[0] = None
        items[0] = 1000 + step % 4
        guarded.agrees(x)


def test_cells_and_functions():
    factor = 2.0

    def helper(y, by=2.0, *, plus=1.0):
        return y * by + plus

    def fn(y):
        return helper(y) * factor

    def set_factor(value):
        nonlocal factor
        factor = value

    def other(y, by=2.0, *, plus=1.0):
        return y - by - plus

    x = torch.randn(4)
    guarded = warm(fn, x)
    set_factor(3.0)
    changed(guarded, x)
    helper.__defaults__ = (5.0,)
    changed(guarded, x)
    helper.__kwdefaults__ = {"plus": 7.0}
    changed(guarded, x)
    helper.__kwdefaults__["plus"] = 8.0
    changed(guarded, x)
    helper.__code__ = other.__code__
    changed(guarded, x)


def test_globals_and_builtins(monkeypatch):
    namespace = {"SCALE": 2.0}
    exec("def fn(x):\n    return x * SCALE + abs(-1.0)", namespace)
    x = torch.randn(4)
    guarded = warm(namespace["fn"], x)
    namespace["SCALE"] = 3.0
    changed(guarded, x)
    namespace["abs"] = lambda value: 9.0
    changed(guarded, x)
    del namespace["abs"]
    changed(guarded, x)
    monkeypatch.setattr(builtins, "abs", lambda value: 4.0)
    changed(guarded, x)
    monkeypatch.undo()
    changed(guarded, x)


def test_a_global_that_changes_at_each_call():
    namespace = {"STEP": 0, "torch": torch}
    exec("def fn(x):\n    return x + STEP", namespace)
    guarded = Warm(namespace["fn"])
    x = torch.zeros(4)
    for step in range(40):
        namespace["STEP"] = step % 3
        guarded.agrees(x)


def test_attributes_of_a_module():
    module = types.ModuleType("made")
    module.value = 2.0
    x = torch.randn(4)
    guarded = warm(lambda y: y * module.value, x)
    module.__dict__["value"] = 3.0
    changed(guarded, x)
    module.__dict__.clear()
    module.__dict__.update(__name__="made", value=5.0)
    changed(guarded, x)


def test_a_dictionary_that_dies_and_another_in_its_place():
    class Holder:
        pass

    holder = Holder()
    x = torch.zeros(4)
    guarded = Warm(lambda y: y + holder.table["value"])
    for value in range(60):
        holder.table = {"value": float(value % 4)}
        guarded.agrees(x)
        guarded.agrees(x)
        guarded.agrees(x)


def test_an_instance_that_dies_and_another_in_its_place():
    class Holder:
        def __init__(self, value):
            self.value = value

    holder = [Holder(0.0)]
    x = torch.zeros(4)
    guarded = Warm(lambda y: y + holder[0].value)
    for value in range(60):
        holder[0] = None
        holder[0] = Holder(float(value % 4))
        guarded.agrees(x)
        guarded.agrees(x)
        guarded.agrees(x)


def test_one_dictionary_of_two_objects():
    class Holder:
        pass

    first, second = Holder(), Holder()
    first.value = 1.0
    second.__dict__ = first.__dict__
    x = torch.zeros(4)
    guarded = warm(lambda y: y + first.value + second.value, x)
    second.value = 2.0
    changed(guarded, x)
    vars(first)["value"] = 3.0
    changed(guarded, x)


def test_two_entries_watch_one_dictionary():
    model, x, y = Model(), torch.randn(4), torch.randn(2, 4)
    guarded = Warm(lambda z: model(z))
    for _ in range(WARM):
        guarded.agrees(x)
        guarded.agrees(y)
    model.leaf.scale = 5.0
    for _ in range(WARM):
        guarded.agrees(x)
        guarded.agrees(y)
    framejit.reset()
    model.leaf.scale = 6.0
    changed(guarded, x)


def test_order_of_an_ordered_dictionary():
    class Holder:
        pass

    holder = Holder()
    holder.table = OrderedDict(a=1.0, b=2.0)
    x = torch.zeros(4)

    def fn(y):
        for value in holder.table.values():
            y = y * 2 + value
        return y

    guarded = warm(fn, x)
    holder.table["c"] = 3.0
    changed(guarded, x)
    del holder.table["a"]
    changed(guarded, x)


def test_attributes_stay_as_they_were():
    """That instances get dictionaries of their own is not seen."""
    model, x = Model(), torch.randn(4)
    before = [list(vars(module).items()) for module in model.modules()]
    warm(lambda y: model(y), x)
    after = [list(vars(module).items()) for module in model.modules()]
    assert [[key for key, _ in items] for items in before] == [[key for key, _ in items] for items in after]
    assert all(a is b for old, new in zip(before, after) for (_, a), (_, b) in zip(old, new))


def test_a_walk_over_attributes_goes_on():
    class Holder:
        def __init__(self):
            self.a, self.b, self.c = 1.0, 2.0, 3.0

    holder = Holder()
    compiled = framejit.to_static(lambda x: x + holder.a)
    x = torch.zeros(1)
    seen = []
    for key in vars(holder):
        seen.append(key)
        for _ in range(3):
            compiled(x)
    assert seen == ["a", "b", "c"]


def test_a_model_does_not_live_longer():
    import weakref

    model, x = Model(), torch.randn(4)
    compiled = framejit.to_static(model)
    for _ in range(WARM):
        compiled(x)
    watched = weakref.ref(model.leaf)
    del model, compiled
    gc.collect()
    assert watched() is None


def test_changes_from_another_thread():
    model, x = Model(), torch.ones(4)
    guarded = warm(lambda y: model(y), x)
    go, done = threading.Event(), threading.Event()

    def change():
        go.wait()
        model.leaf.scale = 11.0
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    go.set()
    done.wait()
    thread.join()
    changed(guarded, x)


def test_watcher_slots_in_use():
    """Without a slot for us the versions of dictionaries are asked. In a process of its own: slots are for good."""
    import subprocess
    import sys

    program = """
import ctypes, torch, framejit
if hasattr(ctypes.pythonapi, "PyDict_AddWatcher"):
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    ignore = callback(lambda *event: 0)
    while True:
        try:
            ctypes.pythonapi.PyDict_AddWatcher(ignore)
        except RuntimeError:
            break
class Holder: pass
holder = Holder()
holder.value = 1.0
compiled = framejit.to_static(lambda x: x + holder.value)
x = torch.zeros(1)
for value in (1.0, 2.0, 3.0, 1.0):
    holder.value = value
    for _ in range(6):
        assert compiled(x).item() == value
vars(holder)["value"] = 8.0
assert compiled(x).item() == 8.0
print("right")
"""
    answer = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert answer.stdout.decode().strip() == "right"
