// What it takes to run another graph in the place of a recorded one.
#pragma once

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Whether a graph with other values and the same outputs may, where Recorder::follow() is told of them.
bool may_be_replaced(const graph::Graph& graph, const Recording& recording);
// Whether one may in which copies can stand for outputs that are views.
bool may_be_relaid(const graph::Graph& graph, const Recording& recording);

// Whether LibTorch has oneDNN, and the program has not switched it off.
bool computes_with_onednn();

}  // namespace framejit::torchlib
