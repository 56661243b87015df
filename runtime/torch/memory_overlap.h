// What operators refuse because of where their arguments lie in memory, and Meta kernels do not ask about.
#pragma once

#include <ATen/core/stack.h>

#include "runtime/torch/op_entry.h"

namespace framejit::torchlib {

// Whether an argument that `op` writes has two elements in one place, or shares a part of its memory with another
// argument (ATen/MemoryOverlap.cpp); of lists, whose operators ask no more, the former alone. The arguments lie on the
// stack from `base` on; fakes share their storages as the real tensors do.
bool writes_overlapping(const OpEntry& op, const torch::jit::Stack& stack, size_t base);

// Whether what as_strided is asked for leaves the memory that its tensor is known to have: whether the storage goes on
// there is not part of what is captured, and operators raise where it does not.
bool reaches_beyond(const torch::jit::Stack& stack, size_t base);

}  // namespace framejit::torchlib
