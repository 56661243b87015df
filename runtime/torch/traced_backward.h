// Backwards that the program runs inside of a capture: LibTorch's engine goes over the history of the fakes, and what
// it calls becomes part of the graph.
#pragma once

#include <string>
#include <vector>

#include "runtime/torch/recording.h"

namespace framejit::torchlib {

// Why a backward of these fakes cannot be part of the graph, or null. `inputs`: whose gradients are asked for; none if
// they are accumulated.
const char* why_not_backward(const Recording& recording, const std::vector<at::Tensor>& roots,
                             const std::vector<at::Tensor>& inputs);

// The fakes of inputs in which a backward of these accumulates gradients. With a reason, if some lie elsewhere.
std::vector<at::Tensor> leaves_of(const Recording& recording, const std::vector<at::Tensor>& roots,
                                  std::string* why_not);
// The same of a backward that the program gives the tensors to accumulate in.
std::vector<at::Tensor> named_leaves(const Recording& recording, const std::vector<at::Tensor>& named,
                                     std::string* why_not);

// The history of a result whose backward has run already: a second one that is to reach one of these raises.
// `operation`: see FreedRoot.
void set_freed_history(const at::Tensor& result, const std::string& operation, const std::vector<at::Tensor>& reached);

}  // namespace framejit::torchlib
