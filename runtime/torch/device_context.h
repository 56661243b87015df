// What decides the device of an operator that names none: torch's DeviceContext modes (`with torch.device(...)`,
// `torch.set_default_device`), and the current CUDA device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/py_ref.h"

namespace framejit::torchlib {

// The modes on this thread's __torch_function__ stack, outermost first, are all instances of
// torch.utils._device.DeviceContext itself. The stack may be empty.
bool has_only_device_contexts();
// Their devices, torch.device objects. Null elements where a mode has none.
std::vector<Ref> device_contexts();
// A number for what device_contexts() gives; 0 for none.
uint64_t device_contexts_word();
// Takes them off the stack; restoring at::ThreadLocalState puts them back.
void set_device_contexts_aside();

// Where "cuda" means the current device. Nothing before torch has initialised CUDA.
std::optional<int> current_cuda_device();
void set_current_cuda_device(int index);

}  // namespace framejit::torchlib
