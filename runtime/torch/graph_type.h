// The Python type framejit.Graph. No LibTorch header is needed to use this file.
#pragma once

#include <memory>

#include "base/py_ref.h"

namespace framejit::torchlib {

class BuiltGraph;

// Borrowed; null with a Python error.
PyTypeObject* graph_type();
Ref make_graph_object(std::shared_ptr<BuiltGraph> graph);
// Null with a TypeError if the object is no framejit.Graph.
std::shared_ptr<BuiltGraph> graph_of_object(PyObject* object);

}  // namespace framejit::torchlib
