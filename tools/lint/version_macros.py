"""Version tests live in the ABI files alone, and on the Python side in one module: everything else asks tables."""

import re

import tree

ALLOWED_C = re.compile(r"^(eval_frame/abi_3\d+|bytecode/code_object_abi_3\d+)\.\w+$")
ALLOWED_PYTHON = ("python/framejit/_torch_check.py",)
_C_MACROS = re.compile(r"\bPY_(VERSION_HEX|VERSION|(MAJOR|MINOR|MICRO)_VERSION)\b|\bFRAMEJIT_PYTHON_TAG\b")
_PYTHON_TESTS = re.compile(r"\bsys\.(version_info|hexversion)\b|\bplatform\.python_version")


def find(root, names, pattern, message):
    complaints = []
    for name in names:
        for number, line in enumerate(tree.read(root, name).splitlines(), 1):
            match = pattern.search(line)
            if match:
                complaints.append("%s:%d: %s: %s" % (name, number, match.group(), message))
    return complaints


def check(root):
    c_names = [name for name in tree.files(root, tree.C_SUFFIXES) if tree.room_of(name) and not ALLOWED_C.match(name)]
    python_names = [
        name for name in tree.files(root, (".py",)) if name.startswith("python/") and name not in ALLOWED_PYTHON
    ]
    return find(
        root, c_names, _C_MACROS, "version macros belong in eval_frame/abi_3x and bytecode/code_object_abi_3x"
    ) + find(root, python_names, _PYTHON_TESTS, "version tests belong in " + ALLOWED_PYTHON[0])


if __name__ == "__main__":
    tree.main(check)
