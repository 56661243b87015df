"""Classes that get special methods after a capture for objects of them: what they lacked is guarded as well."""

import copy
import math
import operator
import random

import pytest
import torch

import framejit

USES = [
    "bool(o)", "not o", "1 if o else 2", "o and 3", "any([o])", "len(o)", "list(o)", "[*o]", "(lambda *a: a)(*o)", "dict(o)",
    "1 in o", "o == 1", "o == o", "o != 1", "o < 1", "o >= 1", "hash(o) == 5", "{o: 1}.get(o)", "o in [o]", "[o].count(1)",
    "f'{o}'[:3]", "str(o)[:3]", "o + 1", "1 + o", "sum([o])", "o * 2", "-o", "~o", "o | 1", "o @ 1", "o // 1", "o ** 2", "o % 2",
    "o[0]", "o(1)", "callable(o)", "iter(o) is None", "next(o)", "int(o)", "float(o)", "abs(o)", "round(o)", "bytes(o)", "complex(o)",
    "hasattr(o, 'late')", "getattr(o, 'late', 0)", "o.late", "type(o).late", "o.held", "type(o).held", "with_(o)", "copy.copy(o) is o",
    "math.floor(o)", "[1, 2][o]", "operator.index(o)", "divmod(o, 1)", "max(o, o) is o", "reversed(o) is None", "isinstance(1, o)",
]  # fmt: skip
METHODS = {
    "__bool__": lambda s: False, "__len__": lambda s: 0, "__iter__": lambda s: iter([4]), "__contains__": lambda s, v: True,
    "__eq__": lambda s, o: "eq", "__hash__": lambda s: 5, "__ne__": lambda s, o: "ne", "__lt__": lambda s, o: "lt", "__ge__": lambda s, o: "ge",
    "__str__": lambda s: "str", "__repr__": lambda s: "repr", "__format__": lambda s, f: "format", "__add__": lambda s, o: "add",
    "__radd__": lambda s, o: "radd", "__mul__": lambda s, o: "mul", "__neg__": lambda s: "neg", "__getitem__": lambda s, i: [1, 2][i],
    "__call__": lambda s, v=0: "call", "__next__": lambda s: "next", "__int__": lambda s: 7, "__index__": lambda s: 1, "__float__": lambda s: 1.5,
    "__abs__": lambda s: "abs", "__round__": lambda s, n=0: "round", "__bytes__": lambda s: b"x", "late": 5, "__enter__": lambda s: "enter",
    "__exit__": lambda s, *a: None, "__copy__": lambda s: s, "__divmod__": lambda s, o: "divmod", "__reversed__": lambda s: None,
    "__floor__": lambda s: "floor", "__or__": lambda s, o: "or", "__matmul__": lambda s, o: "matmul", "__floordiv__": lambda s, o: "floordiv",
    "__pow__": lambda s, o: "pow", "__mod__": lambda s, o: "mod", "__invert__": lambda s: "invert", "keys": lambda s: ["k"],
    "__complex__": lambda s: 1j, "__instancecheck__": lambda s, o: True, "__getattr__": lambda s, n: "getattr",
}  # fmt: skip
OF_HELD = {"__get__": lambda s, o, t: "got", "__set__": lambda s, o, v: None}


def with_(o):
    with o as value:
        return value


NAMES = {"with_": with_, "copy": copy, "math": math, "operator": operator}


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).split(" at 0x")[0]


@pytest.mark.parametrize("use", USES)
def test_each_method_is_seen_when_it_is_there(use):
    held = type("Held", (), {})
    late = type("Late", (), {"held": held()})
    obj, x = late(), torch.ones(2)
    obj.held = "own"
    names = {**NAMES, "o": obj}
    plain = eval(f"lambda o: {use}", names)
    compiled = framejit.to_static(eval(f"lambda o, x: ({use}, x.sin())", names))
    changes = [(late, *item) for item in METHODS.items()] + [(held, *item) for item in OF_HELD.items()]
    random.Random(use).shuffle(changes)
    for at, (owner, name, value) in enumerate([(late, "first", 0), *changes]):
        setattr(owner, name, value)
        if at % 8 == 0:
            framejit.reset()
        expected = outcome(lambda: plain(obj))
        found = outcome(lambda: compiled(obj, x)[0])
        assert repr(found) == repr(expected), f"with {name}"
    assert framejit.stats()["captures"] >= 1
