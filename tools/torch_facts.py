"""Print what a build must know of the interpreter that runs this file and of the torch it has, as `key=value` lines.

Torch is read, not imported: importing it takes seconds, and the answers lie in its files. Standard library only.
"""

import importlib.util
import os
import re
import sys
import sysconfig


def python_facts():
    return {
        "python_include": sysconfig.get_path("include"),
        "python_version": "%d.%d" % sys.version_info[:2],
        "python_tag": "%d%d" % sys.version_info[:2],
        "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
        "python_debug": int(hasattr(sys, "gettotalrefcount")),
    }


def find_torch():
    """The folder of the torch package, or None."""
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def torch_version(root):
    with open(os.path.join(root, "version.py")) as f:
        return re.search(r"^__version__ = ['\"]([^'\"]+)", f.read(), re.M).group(1)


def cxx11_abi(root):
    """Which std::string libc10 was built with: the mangled name of c10::Error's constructor says it."""
    with open(os.path.join(root, "lib", "libc10.so"), "rb") as f:
        symbols = f.read()
    return int(re.search(rb"_ZN[K]?3c10\w*NSt7__cxx1112basic_string", symbols) is not None)


def pybind11_abi(root):
    """(compiler, standard library, ABI) in the name under which torch's pybind11 keeps its types, or None where the
    headers work it out alike for every GCC (since pybind11 2.14)."""
    with open(os.path.join(root, "lib", "libtorch_python.so"), "rb") as f:
        found = re.search(rb"__pybind11_internals_v\d+(_gcc|_clang)(_libstdcpp|_libcpp)(_cxxabi\d+)__", f.read())
    return [part.decode() for part in found.groups()] if found else None


def torch_facts():
    root = find_torch()
    if root is None:
        return {}
    facts = {"torch_root": root, "torch_version": torch_version(root), "torch_cxx11_abi": cxx11_abi(root)}
    abi = pybind11_abi(root)
    if abi:
        facts.update(zip(("pybind11_compiler", "pybind11_stdlib", "pybind11_build_abi"), abi))
    return facts


def main():
    facts = python_facts()
    facts.update(torch_facts())
    for key, value in facts.items():
        print("%s=%s" % (key, value))


if __name__ == "__main__":
    main()
