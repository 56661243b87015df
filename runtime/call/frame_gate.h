// The tracer's gate for Python frames, made of the frame hook.
#pragma once

#include "eval_frame/frame_view.h"
#include "tracer/frame_gate.h"

namespace framejit::runtime {

// What the frame handler does with the frames of a thread.
enum class GateState : uint8_t {
  kNone,  // captures them
  kOpen,  // leaves them to the interpreter
  kShut,  // refuses them
};

FrameGate& frame_gate();

// Of a frame that the hook hands over while the gate is open or shut. As FramejitFrameHandler.
int answer_at_gate(const FrameView& view);

}  // namespace framejit::runtime
