// What one thread has in flight between the C++ calls that one twin makes.
#pragma once

#include <memory>
#include <vector>

#include "eval_frame/hook.h"
#include "runtime/cache/code_cache.h"
#include "runtime/call/frame_gate.h"
#include "runtime/call/shadow.h"
#include "runtime/replay/replay.h"

namespace framejit::runtime {

// The locals of a frame by slot, and its stack, bottom first.
struct FrameValues {
  Ref function;  // null: of the segment's own frame, as code
  Ref code;
  std::vector<std::pair<uint32_t, Ref>> locals;
  std::vector<Ref> stack;
};

// A segment that has run and whose frames are still to be entered: first frame `next_frame`, then the callee that it
// waits for, and so on.
struct Continuation {
  std::shared_ptr<CompiledEntry> entry;
  std::vector<FrameValues> frames;  // from next_frame on, innermost first; nothing else holds their values
  uint32_t next_frame = 0;
};

// Handed from one callable of a twin to the next. Between the two the interpreter may run signal handlers and
// finalisers, which may use twins of their own: so each belongs to a frame.
struct Transfer {
  void* frame = nullptr;     // of the twin; null: of the resume code below, whose frame does not exist yet
  PyObject* code = nullptr;  // resume code about to start
  Ref value;                 // what take() returns
  std::vector<Ref> slots;    // what take() or resume_slot() writes: stack slots from first_slot on
  int first_slot = 0;
  std::vector<std::pair<uint32_t, Ref>> locals;  // what resume_slot() writes
  Continuation rest;
  std::shared_ptr<CodeCache> cache;
  uint32_t exit = 0;         // where resume code goes on
  Ref left_frame;            // that it goes on for, if tracebacks may name it
  std::vector<Ref> holders;  // of that frame, where this does not carry all: see all_holders() in tracebacks.h
  bool wants_hook = false;   // what runs there may reach Python frames
};

// One activation of a twin or of resume code. Its end drops what an exception left behind, and takes the hook out.
class TwinScope {
 public:
  // `root`: what the user called, if this is the call of a static function; all captures that happen on the way are
  // noted there.
  explicit TwinScope(PyThreadState* tstate, CodeCache* root = nullptr);
  ~TwinScope();
  TwinScope(const TwinScope&) = delete;
  TwinScope& operator=(const TwinScope&) = delete;

  CodeCache* root() const { return root_; }
  // Turns the frame hook on until the scope ends: an instruction is about to run that may reach Python frames.
  void want_hook();
  // The present exception, of a segment, is about to pass the twin's frame. The traceback has the operator's own line
  // already: the one that the frame adds goes.
  void hide_next_line();

 private:
  void drop_stale_transfers();
  void drop_hidden_line();

  PyThreadState* tstate_;
  TwinScope* outer_;
  CodeCache* root_;
  size_t transfers_;
  int token_ = 0;
  bool hooked_ = false;
  Ref below_hidden_;  // the traceback to which the hidden line is added
};

struct ThreadState {
  std::vector<Transfer> transfers;
  TwinScope* scope = nullptr;
  ShadowPhase shadow = ShadowPhase::kNone;
  uint32_t graph_guards = 0;  // see Engine
  GateState gate = GateState::kNone;
  std::string refused;             // the first function that the gate kept out
  PyObject* eager_code = nullptr;  // the next frame of it runs eagerly: its static function decided so

  Transfer& push(Transfer transfer) {
    transfers.push_back(std::move(transfer));
    return transfers.back();
  }
  // The newest transfer of this frame, or of resume code that starts in it; what lies above it is stale. Null: none.
  Transfer* find(void* frame, PyObject* code);
  void pop();
};

ThreadState& thread_state();

// Freeing code runs what its co_extra asks for, of anyone: never with an exception on its way, which that may drop.
void drop_code(Ref code);

// A frame of this code is about to be run from its captures, on behalf of the static function that runs now.
void note_reached(const std::shared_ptr<CodeCache>& cache);

}  // namespace framejit::runtime
