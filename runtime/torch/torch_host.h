// LibTorch as the tracer and the runtime see it. This header needs no LibTorch.
#pragma once

#include "runtime/executable.h"

namespace framejit::torchlib {

// The host of this process. torch must have been imported. Null with a Python error if it cannot be set up.
runtime::TensorRuntime* torch_runtime();

// Compares the fields of the tensor's implementation; the Python type is a guard of its own (TypeIs). False for what is
// no tensor.
bool tensor_matches(PyObject* tensor, const graph::TensorFacts& facts);

// Grad and inference mode, autocast, defaults, deterministic mode, active modes and back-end switches, as one word.
uint64_t global_state();

}  // namespace framejit::torchlib
