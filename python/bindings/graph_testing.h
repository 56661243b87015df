// Functions of `framejit._C._testing` that ask graph/ alone.
#pragma once

#include <Python.h>

#include <string>

#include "codegen/kernels/lower.h"

namespace framejit {

// expression(operator) -> (compute types, whether it reduces), the reason why there is none, or None
PyObject* expression(PyObject*, PyObject* args);
// evaluate(operator, arguments, count, integers) -> list of numbers, of a reduction one
PyObject* evaluate_expression(PyObject*, PyObject* args);

// list of str: one for each kernel that the nodes of a graph, given as text, fuse to
PyObject* texts_of_groups(PyObject* text, std::string (*text_of)(const codegen::FusedGroup&));

// kernels(text of a graph) -> list of str: the kernels that its nodes fuse to
PyObject* kernels_of(PyObject*, PyObject* text);

// has_rule(operator) -> bool: whether graph/ infers what it returns
PyObject* has_rule(PyObject*, PyObject* args);

}  // namespace framejit
