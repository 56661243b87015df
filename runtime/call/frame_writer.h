// Writes what a segment left behind into the running twin frame.
#pragma once

#include "eval_frame/frame_view.h"
#include "runtime/call/thread_state.h"

namespace framejit::runtime {

// By slot in localsplus, null for an unbound one. False with a Python error.
bool build_locals(const std::vector<std::pair<uint32_t, graph::RecipeId>>& recipes, Replay& replay,
                  std::vector<std::pair<uint32_t, Ref>>* locals);
// The values of one frame of an exit, all built before any is written. False with a Python error.
bool build_frame(const graph::FrameExit& frame, Replay& replay, FrameValues* values);

// Methods of C code that were loaded for a call which is still to come, in a stack about to be restored before `at` or
// in that of the running frame: as LoadMethod leaves them, so that the function's own errors name it in the same way.
// Where a site or an exit lies between the load and the call, the twin has loaded a bound one.
void unbind_methods(const bytecode::Decoded& code, bytecode::InstrIndex at, std::vector<Ref>& stack);
void unbind_methods(const bytecode::Decoded& code, bytecode::InstrIndex at, const FrameView& view);

void write_locals(const FrameView& view, std::vector<std::pair<uint32_t, Ref>>& locals);
// stack[i] goes to slot first + i - skip, from i = skip on.
void write_stack(const FrameView& view, int first, std::vector<Ref>& values);

// Puts None where a surplus slot holds NULL, so that the twin can pop it.
void make_poppable(const FrameView& view, int first, int end);

// 3.11+: the thread's handled exception follows the frame from `from` to `to` (invalid: out of all handlers). Call it
// before the stack slots are written; `incoming` are the values that will be in the slots from 0 on, or null.
void move_handled_exception(const FrameView& view, const codegen::TwinLayout& layout, bytecode::InstrIndex from,
                            bytecode::InstrIndex to, std::vector<Ref>* incoming);

}  // namespace framejit::runtime
