// Levels of torch.func that the trace has entered: vmap, grad, jvp. Their C functions are called for real, so that
// operators pass the levels before they are recorded.
#pragma once

#include <string>
#include <vector>

#include "tracer/signals.h"

namespace framejit {

// Tensors of a level cannot be made again, and the level itself neither: while one stands the capture can only end
// where it could before the outermost was entered.
class Transforms {
 public:
  bool active() const { return !entered_.empty(); }
  BreakPoint outermost() const { return entered_.front(); }
  // Before the first level of the whole trace. Invalid: there was none.
  BreakPoint first() const { return first_; }
  uint64_t state_before() const { return state_before_; }

  // `state`: the word of global state before the level.
  void enter(BreakPoint before, uint64_t state) {
    if (entered_.empty()) state_before_ = state;
    if (!first_.valid()) first_ = before;
    entered_.push_back(before);
  }
  void leave() { entered_.pop_back(); }
  // The messages of disabled saved-tensor hooks, as each scope found them: the innermost last.
  std::vector<std::string>& hook_messages() { return hook_messages_; }

 private:
  std::vector<BreakPoint> entered_;
  std::vector<std::string> hook_messages_;
  BreakPoint first_;
  uint64_t state_before_ = 0;
};

}  // namespace framejit
