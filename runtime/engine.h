// Engine: what is one for the process: the tensor library, switches, totals, and what is cached per code object.
// All of it is used under the interpreter lock.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/prefix_set.h"
#include "bytecode/decoded_code.h"
#include "codegen/twin.h"
#include "runtime/executable.h"
#include "runtime/guards/guard_program.h"
#include "runtime/stats.h"

namespace framejit::runtime {

class CodeCache;

// A decoded code object with what its twins need to know.
struct CodeInfo {
  bytecode::DecodedCodePtr decoded;
  codegen::TwinLayout layout;
  bool standard;  // see Engine::is_standard

  CodeInfo(bytecode::DecodedCodePtr code, bool is_standard)
      : decoded(std::move(code)), layout(*decoded), standard(is_standard) {}
};
using CodeInfoPtr = std::shared_ptr<const CodeInfo>;

class Engine {
 public:
  // Gives the engine its tensor library, once. Before that nothing is captured.
  void start(TensorRuntime* tensors);
  TensorRuntime* tensors() const { return tensors_; }
  const TensorGuards& tensor_guards() const { return tensor_guards_; }

  // framejit.enable_to_static
  bool enabled = true;
  // FRAMEJIT_STRICT=1: internal failures raise
  bool strict = false;
  // FRAMEJIT_SHADOW=N: one call in N of a static function is made by this callable, which compares it with an eager
  // one. 0: none is.
  uint32_t shadow_every = 0;
  Ref shadow;
  // Threads that build a graph of their own (framejit.graph_guard), counted once for each guard. Those run eagerly.
  uint32_t graph_guards = 0;
  // For reports: whether captures say which lines they followed, and who is told of each capture: a callable (record as
  // in capture_records, guard that sent the call here as text, code listing), or null.
  bool notes_lines = false;
  Ref on_capture;
  // Frames are captured also where no tensor is: see runtime/everything.h.
  bool everything = false;
  Stats stats;

  // Frames of files that begin with one of these run eagerly when a frame hook meets them. No break is made inside the
  // standard library's: the call of it runs eagerly as a whole, and what it calls is captured by itself.
  PrefixSet standard_prefixes;
  PrefixSet library_prefixes;
  bool is_standard(PyObject* code) const;
  bool is_skipped(PyObject* code) const;

  // Throws InternalError on code that cannot be decoded. Forgotten, with what was captured of it, when the code ends.
  CodeInfoPtr code_info(PyObject* code);
  // The cache of code that no StaticFunction owns: callees of breaks, frames that the hook met.
  std::shared_ptr<CodeCache> shared_cache(PyObject* code);
  // A cache that somebody else owns, for reset() to know.
  void add_owned_cache(const std::shared_ptr<CodeCache>& cache);
  // Drops every capture, and the totals.
  void reset();

  // framejit.not_to_static
  static bool mark_eager(PyObject* code);
  static bool runs_eagerly(PyObject* function);

 private:
  TensorRuntime* tensors_ = nullptr;
  TensorGuards tensor_guards_;
  struct CodeRow {
    CodeInfoPtr info;
    std::shared_ptr<CodeCache> cache;  // null: nobody asked for it
    Ref watch;                         // weak reference to the code
  };
  static PyObject* on_code_end(PyObject*, PyObject* watch);
  CodeRow& row(PyObject* code);

  std::unordered_map<PyObject*, CodeRow> rows_;           // by code object
  std::unordered_map<PyObject*, PyObject*> watch_codes_;  // weak reference -> code object
  std::vector<std::weak_ptr<CodeCache>> owned_caches_;
};

Engine& engine();

// What a code object's extra state says of it. Twins are marked by mark_twin() alone (cache/twin_origin.h). kSkipped is
// what it is, kGivenUp what its captures showed: reset() forgets that alone.
enum class CodeMark : char { kUser, kSkipped, kEager, kTwin, kUnhooked, kGivenUp };
void set_code_mark(PyObject* code, CodeMark mark);
// Null: not looked at yet.
const CodeMark* code_mark(PyObject* code);

}  // namespace framejit::runtime
