"""Which files are the user's own."""

import os
import sys

import pytest
import torch

import framejit
from framejit import _paths
from support import counts


def is_installed(filename):
    return filename.startswith(_paths.installed_prefixes())


@pytest.mark.parametrize("module", [os, torch, framejit, pytest])
def test_libraries_are_not_the_users(module):
    assert is_installed(module.__file__)


def test_what_torch_compiles_with_is_left_alone():
    """Eager torch.cond goes through Dynamo: thousands of frames of these packages, none with a tensor of the program."""
    sympy = pytest.importorskip("sympy")

    def f(x, text):
        y = x + 1
        framejit.graph_break()
        return y * int(sympy.sympify(text))

    f(torch.ones(3), "x + 6 - x")  # imports modules, through pytest's own importer
    with counts.counting() as counted:
        assert torch.equal(framejit.to_static(f)(torch.ones(3), "2 * (3 + x) - 2 * x"), torch.full((3,), 12.0))
    assert counted.captures <= 3, counted.break_reasons


def test_this_file_is_the_users():
    assert not is_installed(os.path.abspath(__file__))


@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_packages_of_another_environment_on_the_path_are_not_the_users(name, tmp_path, monkeypatch):
    """A debug interpreter takes the packages of a release build in this way; a user, those of `pip install --target`."""
    folder = tmp_path / name
    assert not is_installed(str(folder / "package.py"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    assert is_installed(str(folder / "package.py"))
    assert not is_installed(str(tmp_path / "program.py"))
