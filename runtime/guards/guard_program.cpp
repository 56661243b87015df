#include "runtime/guards/guard_program.h"

#include <cstring>

#include "base/handled_exception.h"
#include "base/once.h"
#include "eval_frame/watch.h"
#include "graph/number.h"
#include "runtime/guards/container_guards.h"
#include "runtime/guards/plain_data.h"
#include "runtime/guards/snapshot.h"
#include "runtime/python_util.h"

namespace framejit::runtime {
namespace {

PyObject* or_none(PyObject* value) { return value ? value : Py_None; }

PyObject* dict_item(PyObject* dict, PyObject* key, uint64_t hash) {
  if (!dict || !PyDict_Check(dict)) return nullptr;
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, static_cast<Py_hash_t>(hash));
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* list_item(PyObject* list, uint64_t index) {
  if (!list || !PyList_Check(list) || index >= static_cast<uint64_t>(PyList_GET_SIZE(list))) return nullptr;
  return PyList_GET_ITEM(list, index);
}

PyObject* tuple_item(PyObject* tuple, uint64_t index) {
  if (!tuple || !PyTuple_Check(tuple) || index >= static_cast<uint64_t>(PyTuple_GET_SIZE(tuple))) return nullptr;
  return PyTuple_GET_ITEM(tuple, index);
}

PyObject* type_attr(PyObject* type, PyObject* name) {
  if (!type || !PyType_Check(type)) return nullptr;
  return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
}

bool mro_is(const PyTypeObject* type, PyObject* addresses) {
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(type->tp_mro));
  return static_cast<size_t>(PyBytes_GET_SIZE(addresses)) == count * sizeof(PyObject*) &&
         memcmp(PyBytes_AS_STRING(addresses), &PyTuple_GET_ITEM(type->tp_mro, 0), count * sizeof(PyObject*)) == 0;
}

bool compares(PyObject* subject, PyObject* other, graph::NumberComparison comparison) {
  if (!subject || !PyFloat_CheckExact(subject)) return false;
  const double b = PyFloat_CheckExact(other) ? PyFloat_AS_DOUBLE(other) : PyLong_AsDouble(other);
  return graph::compare_numbers(comparison.op, PyFloat_AS_DOUBLE(subject), b) == comparison.outcome;
}

// What was set, not the variable's default.
PyObject* context_value(PyObject* var, OwnedValues& owned) {
  PyObject* const unset = once_under_lock([] { return PyList_New(0); });
  PyObject* value = nullptr;
  if (!var || !PyContextVar_CheckExact(var) || PyContextVar_Get(var, unset, &value) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  owned.add(value);
  return value == unset ? nullptr : value;
}

bool answers(PyObject* function, PyObject* expected) {
  Ref answer = Ref::steal(PyObject_CallObject(function, nullptr));
  if (!answer) PyErr_Clear();
  return answer && same_plain_data(answer.get(), expected);
}

}  // namespace

inline PyObject* GuardProgram::instance_dict(PyObject* instance, DictSlot& cache) {
  if (!instance) return nullptr;
  if (instance == cache.instance && Py_TYPE(instance) == cache.type && *cache.slot == cache.dict) return cache.dict;
  return find_instance_dict(instance, cache);
}

PyObject* GuardProgram::find_instance_dict(PyObject* instance, DictSlot& cache) {
  // Gives the slot only once the instance has a real dictionary, which then stays where it is.
  PyObject** slot = _PyObject_GetDictPtr(instance);
  cache.instance = nullptr;
  if (!slot || !*slot) {
    if (PyErr_Occurred()) PyErr_Clear();
    return nullptr;
  }
  cache = {instance, Py_TYPE(instance), slot, *slot};
  return *slot;
}

bool GuardProgram::are_apart(ApartSet& set) const {
  std::vector<PyObject*>& table = set.table;
  table.assign(table.size(), nullptr);  // a power of two, at least half of it free
  for (uint32_t member : set.members) {
    PyObject* const obj = registers_[member];
    size_t slot = (reinterpret_cast<uintptr_t>(obj) >> 4) * 0x9E3779B97F4A7C15ull >> 32 & (table.size() - 1);
    while (table[slot]) {
      if (table[slot] == obj) return false;
      slot = (slot + 1) & (table.size() - 1);
    }
    table[slot] = obj;
  }
  return true;
}

void GuardProgram::arm(const Op& op) {
  Group& group = groups_[op.number];
  if (op.code == OpCode::kTypeArm) {
    group.version = framejit_type_version(reinterpret_cast<PyTypeObject*>(op.object));
    group.owner = group.version ? op.object : nullptr;
    return;
  }
  PyObject* dict = registers_[op.reg];
  if (!dict || !PyDict_Check(dict) || (group.ordered && !PyDict_CheckExact(dict)) || !framejit_dict_tells(dict)) return;
  group.owner = dict;
  group.version = dict_version(dict);
}

// Whether what hangs on the dictionary may be skipped. If not, the group is read anew, and armed again at its end.
inline bool GuardProgram::Group::holds_dict(PyObject* dict) {
  if (dict && dict == owner && dict_version(dict) == version) return true;
  owner = nullptr;
  return false;
}

inline bool GuardProgram::Group::holds_type(PyObject* type) {
  if (owner && framejit_type_version(reinterpret_cast<PyTypeObject*>(type)) == version) return true;
  owner = nullptr;
  return false;
}

PyObject* GuardProgram::part_of(PyObject* obj, OpCode part) {
  if (!obj) return nullptr;
  if (part == OpCode::kCellContents) return PyCell_Check(obj) ? PyCell_GET(obj) : nullptr;
  if (part == OpCode::kMethodSelf) return PyMethod_Check(obj) ? PyMethod_GET_SELF(obj) : nullptr;
  if (part == OpCode::kMethodFunction) return PyMethod_Check(obj) ? PyMethod_GET_FUNCTION(obj) : nullptr;
  if (!PyFunction_Check(obj)) return nullptr;
  PyFunctionObject* function = reinterpret_cast<PyFunctionObject*>(obj);
  if (part == OpCode::kFunctionCode) return function->func_code;
  return or_none(part == OpCode::kFunctionDefaults     ? function->func_defaults
                 : part == OpCode::kFunctionKwDefaults ? function->func_kwdefaults
                                                       : function->func_closure);
}

// What is rare, kept out of the loop below.
bool GuardProgram::run_cold(const Op& op, OwnedValues& owned) {
  PyObject* subject = registers_[op.reg];
  switch (op.code) {
    case OpCode::kAttr:
    case OpCode::kTensorGrad:
    case OpCode::kSequenceItem: {
      PyObject* base = registers_[op.other];
      PyObject* value = !base                              ? nullptr
                        : op.code == OpCode::kSequenceItem ? PySequence_GetItem(base, op.number)
                                                           : PyObject_GenericGetAttr(base, op.object);
      if (value)
        owned.add(value);
      else
        PyErr_Clear();
      registers_[op.reg] = value;
      return true;
    }
    case OpCode::kReferent: {
      PyObject* base = registers_[op.other];
      PyObject* value = base && PyWeakref_CheckRefExact(base) ? referent_of(base) : nullptr;
      Py_XINCREF(value);
      if (value) owned.add(value);
      registers_[op.reg] = value;
      return true;
    }
    case OpCode::kContextVar:
      registers_[op.reg] = context_value(registers_[op.other], owned);
      return true;
    case OpCode::kAnswers:
      return answers(subject, op.object);
    case OpCode::kNothingHandled:
      return !is_handling_exception();
    case OpCode::kApart:
      return are_apart(apart_sets_[op.number]);
    case OpCode::kNoGradHooks:
      return subject && tensors_.has_no_grad_hooks(subject);
    case OpCode::kEquals:
      return same_plain_data(subject, op.object);
    case OpCode::kCompares:
      return compares(subject, op.object, graph::NumberComparison::unpacked(op.number));
    case OpCode::kDictKeys:
      return keys_equal(subject, op.object);
    case OpCode::kLength:
      return length_is(subject, op.number);
    case OpCode::kSetGives:
      return set_gives(subject, op.object, op.number);
    case OpCode::kHasNoKey:
      return !subject || (PyDict_Check(subject) && !dict_item(subject, op.object, op.number));
    case OpCode::kTypeAttrAbsent:
      return subject && PyType_Check(subject) && !type_attr(subject, op.object);
    case OpCode::kMroIs:
      return subject && PyType_Check(subject) && mro_is(reinterpret_cast<PyTypeObject*>(subject), op.object);
    case OpCode::kDictArm:
    case OpCode::kTypeArm:
      arm(op);
      return true;
    default:
      return false;
  }
}

// The compiler has seen that they are dictionaries.
inline const GuardProgram::DictLength* GuardProgram::wrong_length(const Op& op) const {
  const DictLength* const end = dict_lengths_.data() + op.number + op.other;
  for (const DictLength* row = end - op.other; row != end; ++row) {
    PyObject* dict = registers_[row->reg];
    if (!dict || PyDict_GET_SIZE(dict) != row->length) return row;
  }
  return nullptr;
}

inline PyObject* GuardProgram::read(const Op& op, const FrameInputs& inputs) {
  PyObject** r = registers_.data();
  switch (op.code) {
    case OpCode::kLocal:
      return inputs.slots[op.number];
    case OpCode::kStack:
      return inputs.stack[op.number];
    case OpCode::kInstanceDict:
      return instance_dict(r[op.other], dict_slots_[op.number]);
    case OpCode::kDictItem:
      return dict_item(r[op.other], op.object, op.number);
    case OpCode::kListItem:
      return list_item(r[op.other], op.number);
    case OpCode::kTupleItem:
      return tuple_item(r[op.other], op.number);
    case OpCode::kType:
      return r[op.other] ? reinterpret_cast<PyObject*>(Py_TYPE(r[op.other])) : nullptr;
    case OpCode::kTypeAttr:
      return type_attr(r[op.other], op.object);
    default:
      return part_of(r[op.other], op.code);
  }
}

inline bool GuardProgram::test_global_state(const Op& op, const FrameInputs& inputs) const {
  if (!inputs.global_state) inputs.global_state = tensors_.global_state();
  return *inputs.global_state == op.number;
}

// A guard, or what is read out of line.
inline bool GuardProgram::test(const Op& op, const FrameInputs& inputs, OwnedValues& owned) {
  PyObject** r = registers_.data();
  switch (op.code) {
    case OpCode::kTypeIs:
      return r[op.reg] && reinterpret_cast<PyObject*>(Py_TYPE(r[op.reg])) == op.object;
    case OpCode::kIdIs:
      return r[op.reg] == op.object;
    case OpCode::kTensorMatch:
      return r[op.reg] && reinterpret_cast<PyObject*>(Py_TYPE(r[op.reg])) == op.object &&
             tensors_.matches(r[op.reg], tensor_words_.data() + op.number);
    case OpCode::kBound:
      return r[op.reg] != nullptr;
    case OpCode::kUnbound:
      return r[op.reg] == nullptr;
    case OpCode::kSame:
    case OpCode::kNotSame:
      return (r[op.reg] == r[op.other]) == (op.code == OpCode::kSame);
    case OpCode::kGlobalState:
      return test_global_state(op, inputs);
    default:
      return run_cold(op, owned);
  }
}

bool GuardProgram::run(const FrameInputs& inputs, OwnedValues& owned) {
  PyObject** r = registers_.data();
  const Op* const begin = ops_.data();
  const Op* const end = begin + ops_.size();
  for (const Op* op = begin; op != end; ++op) {
    if (op->code <= OpCode::kMethodFunction) {
      r[op->reg] = read(*op, inputs);
      continue;
    }
    switch (op->code) {
      case OpCode::kDictGroup:
        if (groups_[op->number].holds_dict(r[op->reg])) op = begin + op->other - 1;
        break;
      case OpCode::kInstanceGroup: {
        Group& group = groups_[op->number];
        r[op->reg] = instance_dict(r[group.instance], group.slot);
        if (group.holds_dict(r[op->reg])) op = begin + op->other - 1;
        break;
      }
      case OpCode::kTypeGroup:
        if (groups_[op->number].holds_type(op->object)) op = begin + op->other - 1;
        break;
      case OpCode::kDictLengths:
        if (const DictLength* wrong = wrong_length(*op)) {
          failed_ = wrong->guard;
          return false;
        }
        break;
      default:
        if (test(*op, inputs, owned)) break;
        failed_ = op->guard;
        return false;
    }
  }
  return true;
}

// ---- snapshots ----

GuardProgram::~GuardProgram() = default;

GuardAnswer GuardProgram::check(const FrameInputs& inputs, OwnedValues& owned) {
  if (busy_) return GuardAnswer::kBusy;
  busy_ = true;
  SnapshotAnswer answer = snapshot_ ? check_snapshot(inputs, owned) : SnapshotAnswer::kChanged;
  if (answer == SnapshotAnswer::kChanged) {
    if (snapshot_) drop_snapshot();
    answer = run(inputs, owned) ? SnapshotAnswer::kHolds : SnapshotAnswer::kFails;
    if (answer == SnapshotAnswer::kHolds) leave_snapshot(inputs);
  }
  busy_ = false;
  return answer == SnapshotAnswer::kHolds ? GuardAnswer::kHit : GuardAnswer::kMiss;
}

// One operation of the program outside of its order: a group's is only the read.
inline bool GuardProgram::perform(const Op& op, const FrameInputs& inputs, OwnedValues& owned) {
  if (op.code <= OpCode::kMethodFunction) {
    registers_[op.reg] = read(op, inputs);
    return true;
  }
  if (op.code == OpCode::kInstanceGroup) {
    Group& group = groups_[op.number];
    registers_[op.reg] = instance_dict(registers_[group.instance], group.slot);
    return true;
  }
  if (op.code == OpCode::kDictLengths) return !wrong_length(op);
  return test(op, inputs, owned);
}

bool GuardProgram::roots_hold() {
  bool hold = true;
  for (const Snapshot::Root& root : snapshot_->roots) {
    if (registers_[root.reg] == root.expected) continue;
    changed(root.origin);
    hold = false;
  }
  return hold;
}

bool GuardProgram::words_hold(size_t from, size_t to) {
  const Snapshot::Word* const begin = snapshot_->words.data();
  for (const Snapshot::Word* word = begin + from; word != begin + to; ++word)
    if (*word->at != word->value) {
      changed(snapshot_->origins[static_cast<size_t>(word - begin)]);
      return false;
    }
  return true;
}

// As are_apart, of a snapshot's set. What is not there, as the dictionary of a tensor that has none, is no object.
template <class Set>
static bool holds_apart(const Set& set, PyObject* const* registers) {
  for (size_t i = 0; i < set.read.size(); ++i) {
    PyObject* const obj = registers[set.read[i]];
    if (!obj) continue;
    bool found = false;
    for (PyObject* other : set.known) found |= other == obj;
    for (size_t k = 0; k < i; ++k) found |= registers[set.read[k]] == obj;
    if (found) return false;
  }
  return true;
}

GuardProgram::SnapshotAnswer GuardProgram::check_snapshot(const FrameInputs& inputs, OwnedValues& owned) {
  auto fails = [this](uint32_t guard) {
    failed_ = guard;
    return SnapshotAnswer::kFails;
  };
  for (const Op& op : snapshot_->front)
    if (!perform(op, inputs, owned)) return fails(op.guard);
  if (!roots_hold() || flag_.raised()) return SnapshotAnswer::kChanged;
  size_t seen = 0;
  for (const Snapshot::Reread& row : snapshot_->rereads) {
    if (!words_hold(seen, row.words_before)) return SnapshotAnswer::kChanged;
    seen = row.words_before;
    registers_[row.op.reg] = read(row.op, inputs);
    if (registers_[row.op.reg] == row.expected) continue;
    changed(row.origin);
    return SnapshotAnswer::kChanged;
  }
  if (!words_hold(seen, snapshot_->words.size())) return SnapshotAnswer::kChanged;
  const TensorRows& tensors = snapshot_->tensors;
  const size_t wrong = tensors.rows.empty() ? 0 : tensors_.first_mismatch(tensors);
  if (wrong != tensors.rows.size()) return fails(tensors.rows[wrong].guard);
  for (const Op& op : snapshot_->late)
    if (!perform(op, inputs, owned)) return fails(op.guard);
  for (const Snapshot::Apart& set : snapshot_->apart_sets)
    if (!holds_apart(set, registers_.data())) return fails(set.guard);
  ++snapshot_->hits;
  return SnapshotAnswer::kHolds;
}

void GuardProgram::changed(uint32_t origin) {
  if (changes_[origin] != UINT8_MAX) ++changes_[origin];
}

}  // namespace framejit::runtime
