// State of the process and of the thread that decides which operators run.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <cstdint>
#include <optional>
#include <string>

namespace framejit::torchlib {

// Null if operators can be recorded under the state as it is now, else the reason in words: active modes, levels of
// torch.func that the recording did not enter itself.
const char* why_not_under_global_state(bool levels_are_ours = false);

// For which devices autocast is on in this thread, and to which types; 0: for none.
uint64_t autocast_state();

// How many regions of autocast the thread is in; its cache of casts is emptied when the outermost ends.
int autocast_nesting();

// All of it, to be put back when a recording ends.
class SavedGlobalState {
 public:
  SavedGlobalState();
  void restore() const;
  bool grad_mode() const { return grad_mode_; }
  bool inference_mode() const { return inference_mode_; }
  // Whether autocast is otherwise now: on for other devices, of other types, more regions deep.
  bool has_other_autocast() const;
  // Whether autocast's cache of casts is that of a region around.
  bool in_autocast_region() const { return autocast_nesting_ > 0 || !autocast_on_.empty(); }

 private:
  at::ThreadLocalState thread_;
  bool grad_mode_;
  bool inference_mode_;
  c10::ScalarType cpu_autocast_dtype_;
  c10::ScalarType cuda_autocast_dtype_;
  bool autocast_cache_;
  int autocast_nesting_;
  c10::DispatchKeySet autocast_on_;
  uint64_t autocast_settings_;
  caffe2::TypeMeta default_dtype_;
  std::optional<int> cuda_device_;
  bool forward_level_;
};

}  // namespace framejit::torchlib
