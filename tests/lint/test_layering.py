import layering
import pytest


@pytest.mark.parametrize(
    "name, line",
    [
        ("graph/node.h", '#include "tracer/simulator.h"'),
        ("graph/node.h", "#include <Python.h>"),
        ("graph/node.h", '#include "base/py_ref.h"'),
        ("base/check.h", "#include <Python.h>"),
        ("base/check.h", '#include "graph/node.h"'),
        ("bytecode/decoder.cpp", '#include "graph/node.h"'),
        ("bytecode/decoder.cpp", '#include "internal/pycore_frame.h"'),
        ("eval_frame/hook.c", '#include "internal/pycore_frame.h"'),
        ("tracer/simulator.cpp", '#include "codegen/twin.h"'),
        ("tracer/simulator.cpp", '#include "eval_frame/hook.h"'),
        ("codegen/twin.cpp", '#  include "tracer/simulator.h"'),
        ("runtime/cache.cpp", "#include <ATen/ATen.h>"),
        ("runtime/cache.cpp", "#include <pybind11/pybind11.h>"),
        ("runtime/cache.cpp", '#include "runtime/torch/recorder.h"'),
        ("runtime/torch/recorder.cpp", '#include "python/framejit/bind.h"'),
        ("python/framejit_bytecode/core.cpp", "#include <torch/extension.h>"),
    ],
)
def test_back_edge_is_refused_with_its_line(make_tree, name, line):
    (complaint,) = layering.check(make_tree({name: "// first\n" + line + "\n"}))
    assert complaint.startswith(name + ":2: ")


@pytest.mark.parametrize(
    "name, line",
    [
        ("graph/node.h", '#include "base/ids.h"'),
        ("base/py_ref.h", "#include <Python.h>"),
        ("eval_frame/abi_312.c", '#include "internal/pycore_frame.h"'),
        ("tracer/simulator.cpp", '#include "eval_frame/frame_view.h"'),
        ("runtime/cache.cpp", '#include "tracer/simulator.h"'),
        ("runtime/torch/recorder.cpp", "#include <ATen/ATen.h>"),
        ("python/framejit/bind.cpp", "#include <torch/extension.h>"),
        ("tests/unit/graph/node_test.cpp", '#include "runtime/cache.h"'),
    ],
)
def test_forward_edge_is_allowed(make_tree, name, line):
    assert layering.check(make_tree({name: line + "\n"})) == []


def test_target_that_links_backwards_is_refused(make_tree):
    files = {
        "bytecode/CMakeLists.txt": "framejit_room(bytecode SOURCES a.cpp DEPS base tracer)",
        "tracer/CMakeLists.txt": "framejit_room(tracer SOURCES a.cpp DEPS bytecode PYTHON)",
        "base/CMakeLists.txt": "framejit_room(base SOURCES a.cpp)",
    }
    (complaint,) = layering.check(make_tree(files))
    assert "bytecode must not link tracer" in complaint
