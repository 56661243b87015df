// CompiledEntry: one captured segment, ready to run: its guards, its graph, and what it leaves behind.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/cache/const_table.h"
#include "runtime/executable.h"
#include "runtime/guards/guard_program.h"
#include "runtime/replay/replay.h"

namespace framejit::runtime {

class Segment;

class CompiledEntry {
 public:
  static constexpr uint32_t kReturns = 0xffffffffu;

  CompiledEntry(std::unique_ptr<graph::Capture> capture, const ObjectPool& pool, const TensorGuards& tensors,
                std::unique_ptr<Executable> executable);

  const graph::Capture& capture() const { return *capture_; }
  const ConstTable& objects() const { return objects_; }
  GuardProgram& guards() { return guards_; }
  const ReplayPlan& replay() const { return replay_; }
  Executable* executable() const { return executable_.get(); }
  size_t output_count() const { return output_count_; }
  size_t op_count() const { return capture_->graph.live_node_count(); }

  // Nothing but Python would be left of the segment: the interpreter runs it as it is.
  bool nothing() const { return nothing_; }
  bool of_kept_frame() const { return of_kept_frame_; }
  // It gives an exception of the program, or a traceback, to what may outlive the call.
  bool keeps_exceptions() const;
  bool returns() const { return capture_->exit == graph::ExitKind::kReturn; }

  // Index in CodeCache::exits; kReturns for a segment that ends the function.
  uint32_t exit = kReturns;
  uint64_t hits = 0;
  double capture_s = 0;  // seconds from the first instruction followed to the compiled graph

  // After a guard hit: runs the graph on what the guards read. `outputs` has room for output_count() values and
  // receives new references. A graph that was found to be wrong is not run again: kUndone, without an error.
  RunStatus run_graph(PyObject** outputs);

  // Lets go of objects that only guards look at and that can be watched; when one dies, the entry leaves its segment.
  static void watch_objects(const std::shared_ptr<CompiledEntry>& entry, Segment* segment);
  void forget_segment() { segment_ = nullptr; }
  bool dead() const { return dead_; }

 private:
  friend struct EntryWatch;
  using Objects = std::unordered_set<PyObject*>;
  std::vector<bool> objects_in_use(const Objects& owned_dicts) const;
  std::vector<bool> objects_named() const;
  Objects dicts_of_owners(const std::vector<bool>& named) const;
  void object_died();
  bool give_numbers(PyObject** inputs);
  void keep_numbers(PyObject* const* inputs);

  std::unique_ptr<graph::Capture> capture_;
  ConstTable objects_;
  GuardProgram guards_;
  ReplayPlan replay_;
  std::unique_ptr<Executable> executable_;
  size_t output_count_;
  bool nothing_;
  bool of_kept_frame_;
  bool dead_ = false;
  bool wrong_ = false;
  Segment* segment_ = nullptr;
  std::vector<Ref> watches_;        // weak references
  std::vector<Ref> spare_numbers_;  // by Capture::number_inputs: tensors of the last call; null while a call has it
};

}  // namespace framejit::runtime
