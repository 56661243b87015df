"""Refuses, in one sentence, a Python or a torch that this build of framejit cannot run with.

The C++ interface of torch is not stable from one minor version to the next, and its string ABI is a choice made when
torch was built, so an extension that is loaded into another torch than its own crashes rather than complains.
"""

import importlib
import sys

MINIMUM_TORCH = (2, 4, 1)
_REBUILD = (
    "rebuild framejit in this environment (./dev build, or pip install --force-reinstall --no-cache-dir framejit)"
)


def release(version):
    """(2, 4, 1) of '2.4.1+cu121', '2.4.1a0' or '2.4.1.dev20240901'."""
    parts = []
    for part in version.split("+")[0].split(".")[:3]:
        digits = ""
        for letter in part:
            if not letter.isdigit():
                break
            digits += letter
        parts.append(int(digits or 0))
    return tuple(parts)


def why_not_usable(build, python_version, torch_version, cxx11_abi):
    """The reason why `build` (module framejit._build_info) does not fit, or None if it does.

    `torch_version` is None where torch is missing.
    """
    if python_version != build.PYTHON_VERSION:
        return "framejit was built for Python {} and this is Python {}: {}".format(
            build.PYTHON_VERSION, python_version, _REBUILD
        )
    minimum = ".".join(map(str, MINIMUM_TORCH))
    if torch_version is None:
        return "framejit needs torch {} or newer, and this environment has none".format(minimum)
    if release(torch_version) < MINIMUM_TORCH:
        return "framejit needs torch {} or newer, and this is torch {}".format(minimum, torch_version)
    if release(build.TORCH_VERSION)[:2] != release(torch_version)[:2]:
        return "framejit was built for torch {} and this is torch {}: {}".format(
            build.TORCH_VERSION, torch_version, _REBUILD
        )
    if int(build.CXX11_ABI) != int(cxx11_abi):
        return "framejit was built for a torch with _GLIBCXX_USE_CXX11_ABI={} and this torch {} has {}: {}".format(
            build.CXX11_ABI, torch_version, int(cxx11_abi), _REBUILD
        )
    return None


def check():
    """Import torch and raise ImportError if this build does not fit it."""
    try:
        build = importlib.import_module("framejit._build_info")
    except ImportError:
        raise ImportError("framejit is not built here: run ./dev build, or pip install it") from None
    python_version = "{}.{}".format(*sys.version_info[:2])
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        reason = why_not_usable(build, python_version, None, None)
    else:
        reason = why_not_usable(build, python_version, str(torch.__version__), torch._C._GLIBCXX_USE_CXX11_ABI)
    if reason:
        raise ImportError(reason)
