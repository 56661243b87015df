// LibTorch as the tracer and the runtime see it. This header needs no LibTorch.
#pragma once

#include "runtime/executable.h"

namespace framejit::torchlib {

// The host of this process. torch must have been imported. Null with a Python error if it cannot be set up.
runtime::TensorRuntime* torch_runtime();

// See runtime::TensorGuards.
void pack_tensor_facts(const graph::TensorFacts& facts, std::vector<uint64_t>& words);
bool tensor_matches(PyObject* tensor, const uint64_t* words);
void take_images(runtime::TensorRows& rows);
size_t first_mismatch(const runtime::TensorRows& rows);
bool has_no_grad_hooks(PyObject* tensor);

// Whether the node that adds to a leaf's gradient has hooks: libraries that share gradients out hang theirs there.
bool has_node_hooks(PyObject* tensor);

uint64_t global_state();

// The kind of device ("cpu", "cuda") for which a Meta kernel is asked on this thread now; null if none is.
const char* device_of_meta_call();

}  // namespace framejit::torchlib
