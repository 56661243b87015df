// What a Python frame does while C code runs for the trace (a special method that C code calls) would happen at the
// capture, and in no later call. So the gate is shut while a segment is traced: such frames are kept out, and the trace
// stops before the instruction.
#pragma once

#include <string>

namespace framejit {

class FrameGate {
 public:
  virtual ~FrameGate() = default;
  // While shut, a Python frame that this thread enters raises at once and is noted. Both nest and give what `end`
  // takes, in reverse order.
  virtual int shut() = 0;
  virtual void end_shut(int token) = 0;
  virtual int open() = 0;
  virtual void end_open(int token) = 0;
  // The first function that was kept out since this was asked last; empty: none.
  virtual std::string take_refused() = 0;
  // What take_refused() would give now and later, for this thread. Lives as long as the thread.
  virtual const std::string& refused() const = 0;
};

// The gate as one of its functions leaves it, for a scope.
template <int (FrameGate::*Enter)(), void (FrameGate::*Leave)(int)>
class GateScope {
 public:
  explicit GateScope(FrameGate& gate) : gate_(gate), token_((gate.*Enter)()) {}
  ~GateScope() { (gate_.*Leave)(token_); }
  GateScope(const GateScope&) = delete;
  GateScope& operator=(const GateScope&) = delete;

 private:
  FrameGate& gate_;
  int token_;
};

using ShutGate = GateScope<&FrameGate::shut, &FrameGate::end_shut>;
using OpenGate = GateScope<&FrameGate::open, &FrameGate::end_open>;

}  // namespace framejit
