// The reference executor: the operators of the graph, as recorded, through LibTorch's dispatcher.
#pragma once

#include <memory>

#include "runtime/executable.h"
#include "runtime/torch/training.h"

namespace framejit::torchlib {

// `graph`: the forward, as passes left it. `training`: null if no output requires grad. `observed`:
// code of the program may see what a failed run leaves, see undo.h.
std::unique_ptr<runtime::Executable> make_aten_executable(const graph::Graph& graph,
                                                          std::shared_ptr<Recording> recording,
                                                          std::shared_ptr<TrainingProgram> training, bool observed);

}  // namespace framejit::torchlib
