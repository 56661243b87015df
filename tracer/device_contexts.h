// `with torch.device(...)` and torch.set_default_device: modes that give functions which make tensors a device where
// the program names none (torch.utils._device.DeviceContext). The trace runs outside of them and does itself what they
// do.
#pragma once

#include <algorithm>
#include <vector>

#include "base/py_ref.h"

namespace framejit {

class Simulator;
struct CallArgs;

class DeviceContexts {
 public:
  void begin(std::vector<Ref> devices) {
    initial_ = devices_ = std::move(devices);
    kept_ = initial_.size();
  }

  bool active() const { return !devices_.empty(); }
  // Whether the trace has to do with any.
  bool concerned() const { return !initial_.empty() || !devices_.empty(); }
  PyObject* innermost() const { return devices_.back().get(); }

  void enter(Ref device) { devices_.push_back(std::move(device)); }
  void leave() {
    devices_.pop_back();
    kept_ = std::min(kept_, devices_.size());
  }

  // What torch.device.__exit__ and then __enter__ must do when the trace ends.
  std::vector<Ref> left() const { return {initial_.rbegin(), initial_.rend() - static_cast<std::ptrdiff_t>(kept_)}; }
  std::vector<Ref> entered() const { return {devices_.begin() + static_cast<std::ptrdiff_t>(kept_), devices_.end()}; }

  // The innermost one is off, as while its __torch_function__ runs.
  class Inside {
   public:
    explicit Inside(DeviceContexts& contexts) : contexts_(contexts), device_(std::move(contexts.devices_.back())) {
      contexts_.devices_.pop_back();
    }
    ~Inside() { contexts_.devices_.push_back(std::move(device_)); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    DeviceContexts& contexts_;
    Ref device_;
  };

 private:
  std::vector<Ref> devices_;  // innermost last
  std::vector<Ref> initial_;  // as the capture began
  size_t kept_ = 0;           // how many of these were never left
};

// Before a function of torch is called for the program.
void name_default_device(Simulator& sim, PyObject* callable, CallArgs& args);

}  // namespace framejit
