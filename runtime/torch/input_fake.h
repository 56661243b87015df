// The fake that stands for a tensor from outside.
#pragma once

#include "base/py_ref.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Null if a graph can say all that this tensor is, else the reason in words.
const char* why_not_strided(const at::Tensor& tensor);
// Null if a graph may take this real tensor as an input, else the reason in words.
const char* why_not_input(PyObject* real);

// Whether it is where the autograd graph of a real tensor begins, which is no leaf.
bool is_outside_node(const torch::autograd::Node& node);

// A Python object of the real one's type. New reference, or null with a Python error. Throws.
PyObject* make_input_fake(Recording& recording, PyObject* real);
// A number of the graph (graph/number.h).
at::Tensor make_number_input(Recording& recording);

}  // namespace framejit::torchlib
