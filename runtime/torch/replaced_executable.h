// A graph that runs as another one with the same outputs: with images laid out otherwise than recorded
// (graph/passes/channels_last.h), or with a backward inside that computes again what it reads
// (graph/passes/backward_inside.h).
#pragma once

#include <memory>

#include "graph/capture.h"
#include "runtime/executable.h"
#include "runtime/torch/aten_executable.h"

namespace framejit::torchlib {

// With kernels. Null where nothing would be gained; `recording` is as before then. Else it is changed to the new graph.
std::unique_ptr<runtime::Executable> make_replaced_executable(const graph::Capture& capture,
                                                              std::shared_ptr<Recording> recording,
                                                              OnFailure on_failure);

}  // namespace framejit::torchlib
