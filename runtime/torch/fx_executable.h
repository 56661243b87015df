// Runs a graph through a callable that a back end made from its torch.fx form.
#pragma once

#include <memory>
#include <string>

#include "runtime/executable.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Null with a Python error, or with a reason and no error. Runs Python.
std::unique_ptr<runtime::Executable> make_fx_executable(const graph::Graph& graph, const Recording& recording,
                                                        PyObject* backend, std::string* why_not);

}  // namespace framejit::torchlib
