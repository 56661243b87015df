// `with torch.inference_mode():` inside of the trace. The thread really is in that mode meanwhile, so that what is made
// there is what eager makes; the operators run under it too.
#pragma once

#include <utility>
#include <vector>

#include "base/py_ref.h"
#include "tracer/signals.h"

namespace framejit {

// A mode cannot be entered for a frame that goes on after the graph: while one stands the capture can only end where
// it could before the outermost was entered.
class InferenceModes {
 public:
  struct Entered {
    Ref context;  // the torch._C._InferenceMode
    BreakPoint before;
    size_t state_calls;  // how many the trace had made
  };

  bool active() const { return !entered_.empty(); }
  BreakPoint outermost() const { return entered_.front().before; }
  const Entered& innermost() const { return entered_.back(); }
  void enter(Entered entered) { entered_.push_back(std::move(entered)); }
  void leave() { entered_.pop_back(); }

 private:
  std::vector<Entered> entered_;
};

}  // namespace framejit
