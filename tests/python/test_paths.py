"""Which files are the user's own."""

import os
import sys

import pytest
import torch

import framejit
from framejit import _paths


def is_installed(filename):
    return filename.startswith(_paths.installed_prefixes())


@pytest.mark.parametrize("module", [os, torch, framejit, pytest])
def test_libraries_are_not_the_users(module):
    assert is_installed(module.__file__)


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
