"""The rooms' one-way order (docs/layout.md): which headers a room may include, and which rooms its target may link."""

import re

import tree

# Room -> the rooms it may include besides itself. An entry with a slash allows that one header.
MAY_INCLUDE = {
    "base": (),
    "graph": ("base",),
    "bytecode": ("base",),
    "eval_frame": ("base",),
    "tracer": ("base", "graph", "bytecode", "eval_frame/frame_view.h"),
    "codegen": ("base", "graph", "bytecode"),
    "runtime": ("base", "graph", "bytecode", "eval_frame", "tracer", "codegen"),
    "runtime/torch": ("base", "graph", "bytecode", "eval_frame", "tracer", "codegen", "runtime"),
    "python/framejit_bytecode": ("base", "graph", "bytecode", "eval_frame", "tracer", "codegen", "runtime"),
    "python": ("base", "graph", "bytecode", "eval_frame", "tracer", "codegen", "runtime", "runtime/torch"),
}
SEE_TORCH = ("runtime/torch", "python")
NO_PYTHON = ("graph",)
PYTHON_IN_BASE = "base/py_ref.h"
ABI_LEAVES = re.compile(r"^(eval_frame/abi_3|bytecode/code_object_abi_3|eval_frame/\w+\.inc\.h)")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
_TORCH = re.compile(r"^(torch|ATen|c10|caffe2|pybind11)/")
_LINKS = re.compile(r"framejit_room\(\s*(\w+)(.*?)\)", re.DOTALL)


def why_not_included(room, name, header):
    """Why a file of `room` must not include `header`, or None."""
    if _TORCH.match(header):
        return None if room in SEE_TORCH else "only %s see LibTorch and pybind11" % " and ".join(SEE_TORCH)
    if header == "Python.h" or header == PYTHON_IN_BASE:
        if room in NO_PYTHON or (room == "base" and PYTHON_IN_BASE not in (name, header)):
            return "%s knows no Python" % room
        return None
    if header.startswith(("internal/", "pycore_")):
        return None if ABI_LEAVES.match(name) else "interpreter internals belong in the ABI files"
    other = tree.room_of(header)
    if other is None or other == room:
        return None
    if other in MAY_INCLUDE[room] or header in MAY_INCLUDE[room]:
        return None
    return "%s must not include %s" % (room, other)


def check_includes(root):
    complaints = []
    for name in tree.files(root, tree.C_SUFFIXES):
        room = tree.room_of(name)
        if room is None:
            continue
        text = tree.read(root, name)
        for match in _INCLUDE.finditer(text):
            reason = why_not_included(room, name, match.group(2))
            if reason:
                line = text.count("\n", 0, match.start()) + 1
                complaints.append('%s:%d: #include "%s": %s' % (name, line, match.group(2), reason))
    return complaints


def room_targets(root):
    """(CMakeLists.txt, room, target, DEPS) of each framejit_room call."""
    for name in tree.files(root, ("CMakeLists.txt",)):
        room = tree.room_of(name)
        if room:
            text = re.sub(r"#[^\n]*", "", tree.read(root, name))
            for match in _LINKS.finditer(text):
                words = match.group(2).split()
                deps = words[words.index("DEPS") + 1 :] if "DEPS" in words else []
                yield name, room, match.group(1), [dep for dep in deps if dep not in ("PYTHON", "TORCH", "SOURCES")]


def check_links(root):
    targets = list(room_targets(root))
    room_of_target = {target: room for _, room, target, _ in targets}
    complaints = []
    for name, room, target, deps in targets:
        for dep in deps:
            other = room_of_target.get(dep)
            allowed = MAY_INCLUDE[room] + (room,)
            if other and not any(entry.split("/")[0] == other or entry == other for entry in allowed):
                complaints.append("%s: target %s must not link %s of %s" % (name, target, dep, other))
    return complaints


def check(root):
    return check_includes(root) + check_links(root)


if __name__ == "__main__":
    tree.main(check)
