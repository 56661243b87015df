// Which inputs of a graph are parameters or buffers of modules.
#pragma once

#include <vector>

#include "graph/capture.h"
#include "tracer/object_pool.h"

namespace framejit::runtime {

// By input: whether it is read out of `_parameters` or `_buffers` of an object's dictionary, as nn.Module keeps them.
std::vector<bool> module_state(const graph::Capture& capture, const ObjectPool& pool);

}  // namespace framejit::runtime
