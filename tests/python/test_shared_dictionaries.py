"""One dictionary in two places: what is written on one way is read on the other, and it need not stay one."""

import json
import types

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager
from support.source import define, define_function


class Thing:
    def __init__(self, value=1):
        self.value = value
        self.items = [1]

    def get(self):
        return self.value


class Itself(dict):
    """Its items are its attributes."""

    def __init__(self, **items):
        super().__init__(items)
        self.__dict__ = self


class Twin(Thing):
    def __init__(self, other):
        self.__dict__ = other.__dict__


def renewed():
    """What the rows below name, made anew."""

    def scaled(x, *, k=2):
        return x * k

    tensor = torch.arange(3.0)
    tensor.mark = 0
    names = types.SimpleNamespace(value=1)
    return dict(thing=Thing(), itself=Itself(value=1, other=2), names=names, scaled=scaled, tensor=tensor, module=torch.nn.Sequential(torch.nn.ReLU()))


# What `held` is, what the function does, and what it reads then.
ROWS = """
thing.__dict__ | thing.value = 9 | held["value"]
thing.__dict__ | thing.value = 9; thing.value = 10 | held["value"], thing.get()
thing.__dict__ | thing.new = 9 | list(held)
thing.__dict__ | thing.new = 9; del thing.new | list(held)
thing.__dict__ | del thing.value; thing.value = 9 | list(held), list(thing.__dict__)
thing.__dict__ | thing.new = 9; thing.more = 8; del thing.new; thing.new = 7 | list(held)
thing.__dict__ | del thing.value | "value" in held
thing.__dict__ | held["value"] = 9 | thing.value
thing.__dict__ | held["value"] = 9 | thing.get()
thing.__dict__ | held.update(value=9) | vars(thing)["value"]
thing.__dict__ | del held["value"] | hasattr(thing, "value")
thing.__dict__ | held["value"] = 9; thing.value = 10 | held["value"]
names.__dict__ | names.value = 9 | held["value"]
names.__dict__ | held["value"] = 9 | names.value
Twin(thing) | thing.value = 9 | held.value
Twin(thing) | held.value = 9 | thing.get()
Twin(thing) | held.new = 9 | thing.new
Twin(thing) | del thing.value | hasattr(held, "value")
Twin(thing) | held.__dict__["value"] = 9 | thing.value
Twin(thing) | thing.__dict__["value"] = 9 | held.get()
Twin(thing) | held.items.append(9) | len(thing.items)
itself | itself["value"] = 9 | itself.value, held.value
itself | itself["new"] = 9 | itself.new, "new" in held
itself | itself.value = 9 | itself["value"], held["value"]
itself | held.value = 9 | itself["value"], itself.value
itself | held["value"] = 9 | itself.value, itself["value"]
itself | held.update(value=9) | itself.value
itself | del itself.value | "value" in held, len(held)
itself | del held["value"] | hasattr(itself, "value")
itself | y = y * itself.value | itself["other"], held.other
thing.__dict__ | itself.__dict__["value"] = 9 | itself.value
scaled.__kwdefaults__ | held["k"] = 9 | scaled(2)
scaled.__kwdefaults__ | held["k"] += 1 | scaled(2), scaled(3)
scaled.__kwdefaults__ | held["k"] = x | scaled(2)
scaled.__kwdefaults__ | held.clear() | scaled(2, k=3)
scaled.__kwdefaults__ | scaled.__kwdefaults__["k"] = 9 | held["k"], list(map(scaled, [2]))
tensor.__dict__ | tensor.mark = 9 | held["mark"]
tensor.__dict__ | held["mark"] = 9 | tensor.mark
tensor.__dict__ | held["new"] = 9 | hasattr(tensor, "new")
module._modules | held["0"] = torch.nn.Tanh() | module(x)
module._modules | held.pop("0") | module(x)
module._modules | held["1"] = torch.nn.Tanh() | len(module), module(x)
module.__dict__ | held["training"] = False | module.training
module.__dict__ | held["_forward_hooks"] = {0: doubled} | module(x)
module.__dict__ | module._forward_hooks = {0: doubled} | module(x)
module.__dict__ | module._forward_pre_hooks = {0: first_doubled} | module(x)
module.__dict__ | held["_modules"] = {"0": torch.nn.Tanh()} | module(x)
module.__dict__ | module._modules = {"0": torch.nn.Tanh()} | module(x), len(held["_modules"])
module.__dict__ | held["_buffers"] = {"b": x} | module.b is x
module.__dict__ | module.forward = torch.neg | module(x)
module.__dict__ | module.training = False | held["training"]
vars(json) | json.mark = 9 | held["mark"]
vars(json) | held["mark"] = 9 | json.mark
globals_here() | held["json"] = 5 | json
globals_here() | held["new"] = 5 | new
""".strip().splitlines()


class World:
    """A function with what it names; `held` can be the dictionary of one of these things, or of one of before."""

    def __init__(self, row, compiled):
        self.held, write, read = (part.strip() for part in row.split("|"))
        source = f"def f(x):\n    y = x + 1\n    {write}\n    return {read}, y * 2\n"
        function = define_function(source, torch=torch, **self.fresh())
        self.names = function.__globals__
        self.function = framejit.to_static(function) if compiled else function

    def fresh(self):
        hooks = dict(doubled=lambda module, args, result: result * 2, first_doubled=lambda module, args: (args[0] * 2,))
        return dict(renewed(), json=json, Twin=Twin, **hooks)

    def together(self):
        self.names["held"] = eval(self.held, dict(self.names, globals_here=lambda: self.names))

    def apart(self):
        self.names.update(self.fresh())

    def run(self):
        vars(json).pop("mark", None)
        self.names.pop("new", None)
        try:
            result = self.function(torch.tensor([1.0, -2.0]))
        except Exception as error:
            result = type(error), str(error)
        state = [vars(self.names[name]) for name in ("thing", "itself", "names", "tensor")]
        return repr((result, state, self.names["scaled"].__kwdefaults__, list(self.names["module"].children())))


@pytest.mark.parametrize("steps", ["together, apart, together", "together and apart, together, apart"])
@pytest.mark.parametrize("row", ROWS)
def test_dictionary_in_two_places(row, steps):
    framejit.reset()
    eager, compiled = World(row, False), World(row, True)
    with counting() as counted:
        for step in steps.split(", "):
            for change in step.split(" and "):
                for world in (eager, compiled):
                    getattr(world, change)()
            for call in range(2):
                assert compiled.run() == eager.run(), f"{step}, call {call + 1}"
    assert counted.graphs and not counted.fallbacks


def test_keys_that_are_deleted_and_set_again_come_last():
    obj, order = Thing(), {"a": 1, "b": 2}
    obj.other = 2

    def f(x):
        del obj.value, order["a"]
        obj.value, order["a"] = 3, 4
        obj.new = 1
        obj.newer = 2
        del obj.new
        obj.new = 3
        return x + 1

    assert_same_as_eager(f, torch.ones(2), after=lambda result: (list(vars(obj)), list(order), vars(obj)))


def test_globals_that_are_deleted_and_set_again_come_last():
    namespace = define(
        """
        first, second = 1, 2

        def f(x):
            global first, new, newer
            del first
            first = 3
            new, newer = 1, 2
            del new
            new = 5
            return x + first
        """
    )
    f = namespace["f"]
    assert_same_as_eager(f, torch.ones(2), after=lambda result: [name for name in f.__globals__ if name in ("first", "second", "new", "newer")])
