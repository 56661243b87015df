"""Imports inside of functions: they find what sys.modules has at the time of the call."""

import builtins
import importlib
import pickle
import sys
import types

import pytest
import torch

import framejit
from support.counts import counting
from support.same_as_eager import assert_same_as_eager
from support.source import define_function

IMPORTS = """
import made | made.number
import made as other | other.number
import made.inner | made.inner.number, made.number
import made.inner as inner | inner.number
from made import number | number
from made import number as n, scaled | scaled(x) * n
from made.inner import number | number
from made import inner | inner.number
from . import number | number
from .inner import number | number
from .. import made | made.number
""".strip().splitlines()


def modules(number):
    made, inner = types.ModuleType("made"), types.ModuleType("made.inner")
    made.number, inner.number = number, 10 * number
    made.inner, made.scaled = inner, lambda x: x * number
    made.__path__ = inner.__path__ = []
    outer = types.ModuleType("outer")
    outer.__path__, outer.made = [], made
    return {"made": made, "made.inner": inner, "outer": outer}


@pytest.fixture
def registered(monkeypatch):
    def register(made):
        for name, module in made.items():
            monkeypatch.setitem(sys.modules, name, module)

    register(modules(2))
    return register


def without_a_module(made):
    """An object in the place of one that has all its names: what a test puts there."""
    top = types.SimpleNamespace(**vars(made["made"]))
    return dict(made, **{"made": top, "made.inner": types.SimpleNamespace(number=7)})


def with_other_numbers(made):
    for step, module in enumerate(made.values(), 5):
        module.number = step
    return made


CHANGES = {
    "other modules": lambda made: modules(3),
    "no modules": without_a_module,
    "other numbers": with_other_numbers,
    "another inner module": lambda made: dict(made, **{"made.inner": modules(4)["made.inner"]}),
    "a class": lambda made: dict(made, made=type("Made", (), dict(vars(made["made"]), number=8))),
    "the first": lambda made: made,
}


@pytest.mark.parametrize("row", IMPORTS)
def test_import_finds_what_is_registered(row, registered):
    statement, value = row.split(" | ")
    package = "outer.other" if ".." in statement else "made"
    source = f"def f(x):\n    {statement}\n    return x + 1, {value}\n"
    f = define_function(source, __package__=package)
    framejit.reset()
    compiled, x, first = framejit.to_static(f), torch.ones(2), modules(2)
    with counting() as counted:
        for name, change in [("at first", lambda made: made), *CHANGES.items()]:
            registered(change(dict(first)))
            for call in range(2):
                assert outcome(compiled, x) == outcome(f, x), f"{name}, call {call + 1}"
    assert counted.graphs and counted.hits and not counted.fallbacks


def outcome(function, x):
    try:
        return repr(function(x))
    except Exception as error:
        return type(error), str(error)


def test_module_that_is_taken_out_is_imported_again(tmp_path, monkeypatch):
    (tmp_path / "counted_imports.py").write_text("import torch\nnumber = torch.ones(2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    @framejit.to_static
    def f(x):
        import counted_imports

        return x + counted_imports.number, counted_imports

    first = f(torch.ones(2))[1]
    assert f(torch.ones(2))[1] is first
    del sys.modules["counted_imports"]
    result, second = f(torch.ones(2))
    assert second is not first and second is sys.modules["counted_imports"]
    assert f(torch.ones(2))[1] is second
    assert torch.equal(result, torch.full((2,), 2.0))


def test_package_of_relative_imports_may_change(registered):
    f = define_function("def f(x):\n    from . import number\n    return x + number\n", __package__="made")
    compiled, x = framejit.to_static(f), torch.ones(2)
    assert torch.equal(compiled(x), x + 2)
    f.__globals__["__package__"] = "made.inner"
    assert torch.equal(compiled(x), x + 20)


class Finder:
    def find_spec(self, name, path=None, target=None):
        return None


class StaticFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None


class RenamedFinder:
    def search(self, name, path=None, target=None):
        return None

    find_spec = search


class OldFinder:
    def find_module(self, name, path=None):
        return None


@pytest.mark.parametrize("finder", [Finder(), Finder, StaticFinder(), RenamedFinder(), OldFinder()], ids=["instance", "class", "static", "renamed", "old"])
def test_importers_of_the_program_are_asked_while_library_code_is_traced(monkeypatch, finder):
    """torch.autocast looks for a package that is not there."""
    if finder is Finder:  # a class, as setuptools has them
        finder = type("ClassFinder", (Finder,), {"find_spec": classmethod(Finder.find_spec)})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    assert_same_as_eager(fn, torch.ones(2, 2), ops=None, miss=None)


WAYS = {
    "__import__": lambda name, pickled: __import__(name).Made.number,
    "import_module": lambda name, pickled: importlib.import_module(name).Made.number,
    "pickle": lambda name, pickled: pickle.loads(pickled).number,
}


@pytest.mark.parametrize("way", WAYS)
def test_module_of_the_program_that_c_code_imports_runs_in_each_call(monkeypatch, tmp_path, way):
    (tmp_path / "imported_late.py").write_text("IMPORTS.append(1)\nclass Made:\n    number = len(IMPORTS)\n")
    imports = []
    monkeypatch.setattr(builtins, "IMPORTS", imports, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    pickled = pickle.dumps(importlib.import_module("imported_late").Made)
    importing = WAYS[way]

    def fn(x):
        return x + 1, importing("imported_late", pickled)

    compiled = framejit.to_static(fn)
    numbers = []
    with counting() as counted:
        for _ in range(3):
            del sys.modules["imported_late"]
            numbers.append(compiled(torch.ones(2))[1])
    assert numbers == [2, 3, 4]
    assert counted.graphs >= 1, counted
    del sys.modules["imported_late"]
