// Tracebacks of a frame whose rest runs in another one.
#pragma once

#include <optional>
#include <vector>

#include "eval_frame/frame_view.h"
#include "runtime/call/thread_state.h"

namespace framejit::runtime {

// What holds the frame that runs now, and with it what is in its variables when it ends.
enum class FrameHolder {
  kNone,
  kOwnExceptions,  // tracebacks of the exception that is handled and of those in its own variables alone
  kOthers,         // what may outlive the call: an exception that was kept, code that asked for the frame
};
// `depth`: of its operand stack.
FrameHolder frame_holder(const FrameView& view, int depth);
// The entries of tracebacks that name a frame that has a holder, and the ended frames that it has called: they can name
// another frame instead. Empty if something else holds it too. Slow.
std::optional<std::vector<Ref>> all_holders(const FrameView& view);

// The holders and those of the exceptions that `transfer` has brought name the frame that runs now, which has the
// locals, in the place of the one that was left.
void move_tracebacks(const Transfer& transfer);

// To be called when a twin or resume code has ended with `result`, null for the present exception: where nothing but
// tracebacks within reach name its frame, the frame and they show the function's own code, and the instruction in it.
void show_own_code(PyObject* result);

}  // namespace framejit::runtime
