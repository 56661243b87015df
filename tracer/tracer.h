// The symbolic bytecode simulator: captures one segment of a function, from an instruction to the next break or return.
// Capture is a transaction: nothing the program can see changes while it runs (see tracer/README.md).
#pragma once

#include <functional>
#include <memory>

#include "base/py_ref.h"
#include "base/result.h"
#include "bytecode/decoded_code.h"
#include "graph/capture.h"
#include "tracer/frame_gate.h"
#include "tracer/object_pool.h"
#include "tracer/source_path.h"
#include "tracer/tensor_host.h"
#include "tracer/trace_stop.h"

namespace framejit {

// The frame as it stands before instruction `at`. All pointers are borrowed for the duration of the capture.
struct SegmentStart {
  bytecode::DecodedCodePtr code;
  bytecode::InstrIndex at;  // function entry: the first instruction after MakeCell, CopyFreeVars and Resume
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  PyObject* function = nullptr;      // may be null (3.8 to 3.10 frames)
  PyObject* const* slots = nullptr;  // localsplus: arguments, locals, cells as cell objects; null where unbound
  PyObject* const* stack = nullptr;
  size_t stack_depth = 0;
  bool kept = false;  // a traceback or the like has the frame, and shows its variables also when it has ended
};

// Name of the builtin function that is the callback of the weak references by which entries watch what they rely on:
// these are none of the program's.
inline constexpr char kEntryWatchName[] = "entry_died";

struct TracerServices {
  TensorHost& host;
  ObjectPool& pool;
  // Cached decode of a code object.
  std::function<bytecode::DecodedCodePtr(PyObject* code)> decode;
  // Whether regenerated code can be entered at this instruction (for pending: go on after it with its result).
  std::function<bool(const bytecode::DecodedCode& code, bytecode::InstrIndex at, bool pending)> can_enter;
  // Whether a capture may end inside a callee of this code; otherwise it ends at its call.
  std::function<bool(const bytecode::DecodedCode& code)> may_break_inside;
  // The user's function behind a framejit callable (StaticFunction), or null: a borrowed reference.
  std::function<PyObject*(PyObject* callable)> captured_function;
  // framejit.not_to_static and functions whose frames must run eagerly. Asked once for each call that is followed:
  // where the interpreter counts runs, it counts as one.
  std::function<bool(PyObject* function)> runs_eagerly;
  // Whether someone is told when this code object ends.
  std::function<bool(PyObject* code)> has_data_of_others;
  // Whether the interpreter tells of a dictionary that it has no other keys than exact strings.
  int (*is_of_text)(PyObject* dict);
  FrameGate& gate;
  // Fills in Capture::lines, for reports.
  bool notes_lines = false;
  // Numbers that were another in each of many captures: what looks at one is left to the interpreter.
  SourcePaths changing;
  // Floats among them, or that may be, which the graph is to take as inputs.
  SourcePaths number_inputs;
  // Whether a graph may compute Python numbers (graph/number.h): LibTorch has no operators for that, which the callable
  // of a program's back end would get.
  bool numbers = true;
  // Capture::keeps_casts
  bool keeps_casts = false;
};

// Captures the segment. An error value means that no segment can be captured here at all (the frame runs eagerly); a
// break in the middle is a Capture whose exit is kBreak. May throw InternalError; a Python error is never left set.
Result<std::unique_ptr<graph::Capture>, TraceStop> capture_segment(const SegmentStart& start,
                                                                   const TracerServices& services);

}  // namespace framejit
