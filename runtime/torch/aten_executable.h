// The reference executor: the operators of the graph, as recorded, through LibTorch's dispatcher.
#pragma once

#include <memory>

#include "runtime/executable.h"
#include "runtime/torch/training.h"

namespace framejit::torchlib {

// What becomes of a run whose operator raises.
enum class OnFailure : uint8_t {
  kRaise,     // it raises
  kRunAgain,  // the same code runs again in the interpreter, if the run has left no trace
  kUndo,      // the same, where code of the program may see what a failed run leaves: it is taken back, see undo.h
};

struct AtenOptions {
  // Elementwise operators run fused, in kernels of framejit's own; where there are none, as without.
  bool kernels = false;
  // The first run is held against what was inferred: a result that is laid out otherwise is an error.
  bool checks_first_run = false;
  // The graph reads inputs at other places than the recorded one, so that calls in which they share what it writes are
  // not run.
  bool reads_elsewhere = false;
};

// `graph`: the forward, as passes left it. `training`: null if no output requires grad.
std::unique_ptr<runtime::Executable> make_aten_executable(const graph::Graph& graph,
                                                          std::shared_ptr<Recording> recording,
                                                          std::shared_ptr<TrainingProgram> training,
                                                          OnFailure on_failure, AtenOptions options = {});

}  // namespace framejit::torchlib
