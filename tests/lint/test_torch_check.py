from types import SimpleNamespace

import _torch_check
import pytest

BUILD = SimpleNamespace(PYTHON_VERSION="3.12", TORCH_VERSION="2.4.1+cu121", CXX11_ABI="0")


@pytest.mark.parametrize("torch_version", ["2.4.1+cu121", "2.4.1", "2.4.9+cpu", "2.4.1a0+git1234"])
def test_fitting_torch_is_accepted(torch_version):
    assert _torch_check.why_not_usable(BUILD, "3.12", torch_version, False) is None


@pytest.mark.parametrize(
    "python, torch_version, abi, words",
    [
        ("3.11", "2.4.1", False, "was built for Python 3.12"),
        ("3.12", None, None, "needs torch 2.4.1 or newer"),
        ("3.12", "2.3.1", False, "needs torch 2.4.1 or newer, and this is torch 2.3.1"),
        ("3.12", "2.4.0", False, "needs torch 2.4.1 or newer"),
        ("3.12", "2.15.0+cu132", True, "was built for torch 2.4.1+cu121 and this is torch 2.15.0+cu132"),
        ("3.12", "2.4.1", True, "_GLIBCXX_USE_CXX11_ABI=0 and this torch 2.4.1 has 1"),
    ],
)
def test_other_torch_is_refused_in_one_sentence(python, torch_version, abi, words):
    reason = _torch_check.why_not_usable(BUILD, python, torch_version, abi)
    assert words in reason
    assert "\n" not in reason
