// The facts of this process that results of operators depend on.
#pragma once

#include "graph/infer.h"

namespace framejit::torchlib {

graph::InferEnvironment infer_environment();

}  // namespace framejit::torchlib
