// What a Python frame does while C code runs for the trace (a special method that C code calls) would happen at the
// capture, and in no later call. So such frames are kept out, and the trace stops before the instruction.
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
};

class ShutGate {
 public:
  explicit ShutGate(FrameGate& gate) : gate_(gate), token_(gate.shut()) {}
  ~ShutGate() { gate_.end_shut(token_); }
  ShutGate(const ShutGate&) = delete;
  ShutGate& operator=(const ShutGate&) = delete;

 private:
  FrameGate& gate_;
  int token_;
};

class OpenGate {
 public:
  explicit OpenGate(FrameGate& gate) : gate_(gate), token_(gate.open()) {}
  ~OpenGate() { gate_.end_open(token_); }
  OpenGate(const OpenGate&) = delete;
  OpenGate& operator=(const OpenGate&) = delete;

 private:
  FrameGate& gate_;
  int token_;
};

}  // namespace framejit
