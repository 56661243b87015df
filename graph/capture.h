// Capture: all that the simulation of one segment yields. tracer/ writes it, runtime/ turns it into a CompiledEntry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/guard.h"
#include "graph/recipe.h"
#include "graph/source.h"
#include "graph/tensor_meta.h"

namespace framejit::graph {

// What a TensorMatch guard compares. The dispatch key set is LibTorch's raw word: it tells subclasses, layouts,
// inference tensors and conjugate or negative bits apart.
struct TensorFacts {
  TensorMeta meta;
  uint64_t key_set = 0;
  ConstId python_type;
  bool is_leaf = true;
};

// Where a frame stands when the segment ends.
struct FrameExit {
  ConstId code;
  RecipeId function;     // unbound for the segment's own frame
  uint32_t instruction;  // InstrIndex in the decoded code: runs next; for all but the innermost frame, the pending call
  bool pending = false;  // the instruction is a call whose callee is the next FrameExit
  std::vector<std::pair<uint32_t, RecipeId>> locals;  // slot in localsplus -> value, see finish_break()
  std::vector<RecipeId> stack;                        // bottom first; below the operands of a pending call
};

enum class ExitKind : uint8_t { kReturn, kBreak };

struct Capture {
  Graph graph;
  SourceTable sources;
  GuardList guards;
  std::vector<TensorFacts> tensor_facts;
  std::vector<SourceId> input_sources;  // of the graph's inputs, in order
  std::vector<uint32_t> number_inputs;  // which of them are Python floats, see graph/number.h
  bool keeps_casts = false;             // casts of leaves stay in graphs without a history
  std::vector<bool> frozen_inputs;      // which of them are parameters or buffers that stay as they are; empty: none
  RecipeTable recipes;
  std::vector<Effect> effects;   // in program order
  std::vector<ConstId> classes;  // whose addresses the guards of class orders compare
  std::vector<ConstId> callees;  // code of the functions that the trace went through, each once
  bool has_handlers = false;     // some code of the trace has a `try` or `with`
  ExitKind exit = ExitKind::kReturn;
  RecipeId returned;                 // kReturn
  std::vector<uint32_t> left_slots;  // kReturn: of the segment's own frame; it let go of what was in them
  bool of_kept_frame = false;        // of a frame that may live on when it ends: all that is in its variables is given
  std::vector<std::pair<uint32_t, RecipeId>> kept_locals;  // kReturn, of a kept frame: as FrameExit::locals
  std::vector<FrameExit> frames;                           // kBreak: outermost (the segment's own) first
  uint16_t stop_reason = 0;                                // kBreak: row of tracer/stop_reasons.def
  std::string stop_detail;
  bool may_reach_python = false;                   // the breaking instruction may run Python frames: the hook is wanted
  std::string stop_location;                       // file:line of the user's code
  std::vector<std::pair<std::string, int>> lines;  // files and lines followed, if TracerServices::notes_lines
};

// Adds what another capture of the same code, with the same objects, guards. Sources are matched by what they read.
void add_guards_of(Capture& capture, const Capture& other);

}  // namespace framejit::graph
