// A graph whose parameters and buffers the program promises to leave alone: what is computed from them alone is
// computed once, convolutions and products get them in oneDNN's layout (graph/passes/frozen.h, pack.h).
//
// A change is noticed where LibTorch counts writes, where a parameter gets other memory, and, of small ones and of
// running statistics, where their numbers are others: then all is computed anew. Writes to `.data` of a large one go
// unnoticed. On the CPU only.
#pragma once

#include <memory>

#include "graph/capture.h"
#include "runtime/executable.h"
#include "runtime/torch/aten_executable.h"
#include "runtime/torch/frozen_stats.h"

namespace framejit::torchlib {

// Null where nothing can be computed once; `recording` is as before then. Else it is changed to the new graph.
std::unique_ptr<runtime::Executable> make_frozen_executable(const graph::Capture& capture,
                                                            std::shared_ptr<Recording> recording, OnFailure on_failure);

}  // namespace framejit::torchlib
