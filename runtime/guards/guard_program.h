// Guards compiled to a flat program over a register file, one register per source.
//
// Each distinct source is read at most once a check. What hangs on one dictionary is a group: the reads of its items,
// and the guards that look only at which object was found. A group is skipped while the dictionary is the same object
// with the same ma_version_tag, which CPython gives a new, globally unique value at each change; the registers still
// hold what the last read found, and those objects are alive because the unchanged dictionary holds them. Attributes of
// types are grouped by tp_version_tag in the same way. So an unchanged module tree costs one compare for each
// dictionary in it.
//
// A second hit leaves a snapshot (snapshot.h), which the checks after it compare in place of running the program.
//
// Registers hold borrowed references, and keep them between checks. A register may be followed only in the order of the
// program: what stands before it has shown that it is alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"
#include "runtime/cache/const_table.h"
#include "runtime/guards/dict_watch.h"
#include "runtime/guards/tensor_guards.h"

namespace framejit::runtime {

// Where Local and Stack sources are read.
struct FrameInputs {
  PyObject* const* slots = nullptr;
  PyObject* const* stack = nullptr;
  // Of the thread, once a guard has asked: the same for all entries that are checked for one call.
  mutable std::optional<uint64_t> global_state = std::nullopt;
  bool kept = false;  // as SegmentStart::kept: only entries that were captured so serve
};

// New references that a check had to make: values of C-level attributes. They live until the entry has run; where code
// of the program runs instead, it must not find them held.
class OwnedValues {
 public:
  OwnedValues() = default;
  ~OwnedValues() { clear(); }
  OwnedValues(const OwnedValues&) = delete;
  OwnedValues& operator=(const OwnedValues&) = delete;
  void add(PyObject* stolen) { values_.push_back(stolen); }
  void clear() {
    for (PyObject* value : std::exchange(values_, {})) Py_DECREF(value);
  }

 private:
  std::vector<PyObject*> values_;
};

enum class GuardAnswer : uint8_t {
  kHit,
  kMiss,
  kBusy,  // this program is being checked right now, further up the stack: run eagerly
};

class GuardProgram {
 public:
  // `capture` and `pool` outlive the program.
  GuardProgram(const graph::Capture& capture, const ConstTable& pool, const TensorGuards& tensors);
  ~GuardProgram();
  GuardProgram(const GuardProgram&) = delete;
  GuardProgram& operator=(const GuardProgram&) = delete;

  // Runs no Python code, but for the C-level attributes that the capture read. No Python error is left set.
  GuardAnswer check(const FrameInputs& inputs, OwnedValues& owned);

  // After a miss: index of the guard in the capture; guards().size() if a source that the replay needs cannot be read.
  uint32_t failed_guard() const { return failed_; }
  // After a hit, until the program is checked again: the value of a source that the guards, the graph's inputs or the
  // recipes use.
  PyObject* value(graph::SourceId source) const { return registers_[source.index()]; }

  size_t op_count() const { return ops_.size(); }

 private:
  friend class GuardCompiler;
  friend class SnapshotBuilder;
  struct Snapshot;
  enum class OpCode : uint8_t;
  struct Op {
    OpCode code;
    uint32_t reg = 0;    // read: destination; guard: what is looked at
    uint32_t other = 0;  // read: base; guard: second register; group: op after its end; lengths: how many
    uint32_t guard = 0;
    PyObject* object = nullptr;
    uint64_t number = 0;  // index, hash, group, where a tensor's words or a run of lengths starts
  };
  // One of a run of dictionaries whose lengths are compared together.
  struct DictLength {
    uint32_t reg;
    uint32_t guard;
    Py_ssize_t length;
  };
  // Where an instance keeps its dictionary.
  struct DictSlot {
    PyObject* instance = nullptr;
    PyTypeObject* type = nullptr;
    PyObject** slot = nullptr;
    PyObject* dict = nullptr;
  };
  // Registers whose objects are all different, and room to see it.
  struct ApartSet {
    std::vector<uint32_t> members;
    std::vector<PyObject*> table;
  };
  // State of one dictionary or type between checks.
  struct Group {
    PyObject* owner = nullptr;  // null: not armed
    uint64_t version = 0;
    bool ordered = false;   // a guard depends on the order of keys
    uint32_t instance = 0;  // kInstanceGroup: register of the instance
    DictSlot slot;
    bool holds_dict(PyObject* dict);
    bool holds_type(PyObject* type);
  };

  enum class SnapshotAnswer : uint8_t { kHolds, kFails, kChanged };

  bool run(const FrameInputs& inputs, OwnedValues& owned);
  bool perform(const Op& op, const FrameInputs& inputs, OwnedValues& owned);
  bool test(const Op& op, const FrameInputs& inputs, OwnedValues& owned);
  bool test_global_state(const Op& op, const FrameInputs& inputs) const;
  SnapshotAnswer check_snapshot(const FrameInputs& inputs, OwnedValues& owned);
  bool roots_hold();
  bool words_hold(size_t from, size_t to);
  void leave_snapshot(const FrameInputs& inputs);
  void drop_snapshot();
  void changed(uint32_t origin);
  const DictLength* wrong_length(const Op& op) const;
  PyObject* read(const Op& op, const FrameInputs& inputs);
  bool run_cold(const Op& op, OwnedValues& owned);
  PyObject* instance_dict(PyObject* instance, DictSlot& cache);
  static PyObject* find_instance_dict(PyObject* instance, DictSlot& cache);
  bool are_apart(ApartSet& set) const;
  static PyObject* part_of(PyObject* obj, OpCode part);
  void arm(const Op& op);

  const graph::Capture& capture_;
  const ConstTable& pool_;
  TensorGuards tensors_;
  std::vector<Op> ops_;
  std::vector<PyObject*> registers_;
  std::vector<Group> groups_;
  std::vector<DictSlot> dict_slots_;
  std::vector<ApartSet> apart_sets_;
  std::vector<DictLength> dict_lengths_;
  std::vector<uint64_t> tensor_words_;
  uint32_t failed_ = 0;
  bool busy_ = false;

  std::unique_ptr<Snapshot> snapshot_;
  WatchFlag flag_;                // on the dictionaries that the snapshot relies on
  std::vector<uint8_t> changes_;  // by operation, then by length: how often a snapshot was given up for it
  uint32_t patience_ = 1;         // hits of the program before a snapshot is made
  uint32_t waited_ = 0;
};

}  // namespace framejit::runtime
