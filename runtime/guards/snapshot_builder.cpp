// Makes a snapshot: evaluates once more, right after a hit, what the snapshot will not look at again, and notes what
// that followed from. Nothing here runs Python code, or lets the collector run it, so nothing changes between the first
// note and the last read: before 3.12 no Python object is made, and since then the making of one does not collect.
#include <Python.h>

#include <algorithm>

#include "eval_frame/watch.h"
#include "runtime/guards/attribute_place.h"
#include "runtime/guards/snapshot.h"
#include "runtime/python_util.h"

namespace framejit::runtime {
namespace {

constexpr uint32_t kMostPatience = 1024;
constexpr uint64_t kFewHits = 8;

const Memory* memory(const void* at) { return static_cast<const Memory*>(at); }
uint64_t bits(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

bool is_static_type(PyTypeObject* type) { return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE); }

// Compares without making objects.
bool compares_in_place(PyObject* value) {
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!compares_in_place(PyTuple_GET_ITEM(value, i))) return false;
    return true;
  }
  return value == Py_None || PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) ||
         PyFloat_CheckExact(value) || PyBytes_CheckExact(value);
}

}  // namespace

class SnapshotBuilder {
 public:
  SnapshotBuilder(GuardProgram& program, const FrameInputs& inputs)
      : program_(program), inputs_(inputs), ops_(program.ops_), r_(program.registers_.data()) {}

  // Null: something is not as the hit found it.
  std::unique_ptr<GuardProgram::Snapshot> build() {
    program_.flag_.renew();
    learn();
    const uint32_t count = static_cast<uint32_t>(ops_.size());
    for (uint32_t i = 0; i < count && holds_; ++i) {
      if (i == stable_until_) stable_until_ = 0;
      const Op& op = ops_[i];
      if (is_group(op.code))
        open_group(op, i);
      else if (op.code == OpCode::kDictArm || op.code == OpCode::kTypeArm)
        continue;
      else if (op.code < OpCode::kDictGroup)
        read(op, i);
      else
        guard(op, i);
    }
    if (!holds_) return nullptr;
    if (!snapshot_->tensors.rows.empty()) program_.tensors_.take_images(snapshot_->tensors);
    return std::move(snapshot_);
  }

 private:
  using OpCode = GuardProgram::OpCode;
  using Op = GuardProgram::Op;
  // What is known of the object that a register holds.
  enum class Known : uint8_t {
    kPinned,   // it is the same one
    kAddress,  // it is where it was, by words
    kNothing,  // it is read at each check
  };
  // How often a read has changed decides how it is looked at.
  enum class Level : uint8_t { kByHolder, kByReading, kAnew };
  static constexpr uint8_t kOften = 4;

  static bool is_group(OpCode code) {
    return code == OpCode::kDictGroup || code == OpCode::kInstanceGroup || code == OpCode::kTypeGroup;
  }

  void learn() {
    known_.assign(program_.registers_.size(), Known::kPinned);
    typed_.assign(program_.registers_.size(), false);
    from_frame_.assign(program_.registers_.size(), false);
    followed_.assign(program_.registers_.size(), false);
    for (const Op& op : ops_) {
      if (op.code == OpCode::kDictGroup) followed_[op.reg] = true;
      if (op.code == OpCode::kInstanceGroup) followed_[program_.groups_[op.number].instance] = true;
      if (op.code > OpCode::kStack && op.code < OpCode::kDictGroup) followed_[op.other] = true;
      if (op.code == OpCode::kDictLengths)
        for (uint32_t row = 0; row < op.other; ++row) followed_[program_.dict_lengths_[op.number + row].reg] = true;
    }
  }

  Level level(uint32_t origin) const {
    const uint8_t changes = program_.changes_[origin];
    return changes < kOften ? Level::kByHolder : changes < 2 * kOften ? Level::kByReading : Level::kAnew;
  }

  void expect(const void* at, uint64_t value, uint32_t origin) {
    holds_ &= *memory(at) == value;
    snapshot_->words.push_back({memory(at), value});
    snapshot_->origins.push_back(origin);
  }

  // The type of an object that is the same one changes only if it is a class that Python code can assign.
  void expect_type(uint32_t reg, uint32_t origin) {
    PyTypeObject* type = Py_TYPE(r_[reg]);
    if (typed_[reg] || (known_[reg] == Known::kPinned && is_static_type(type))) return;
    typed_[reg] = true;
    expect(&r_[reg]->ob_type, bits(type), origin);
  }

  bool expect_type_version(PyTypeObject* type, uint32_t origin) {
    if (level(origin) != Level::kByHolder || !framejit_type_version(type)) return false;
    expect(&type->tp_flags, *memory(&type->tp_flags), origin);
    expect(&type->tp_version_tag, *memory(&type->tp_version_tag), origin);
    return true;
  }

  // Whether all that the dictionary holds is vouched for from now on.
  bool expect_dict(PyObject* dict, bool ordered, uint32_t origin) {
    if (!dict || !PyDict_Check(dict) || (ordered && !PyDict_CheckExact(dict))) return false;
    if (level(origin) != Level::kByHolder || !framejit_dict_own_values(dict)) return false;
    if (program_.flag_.put_on(dict))
      snapshot_->watched.push_back({dict, origin});
    else
      expect(dict_version_at(dict), dict_version(dict), origin);
    return true;
  }

  void set(uint32_t reg, PyObject* value, Known known) {
    holds_ &= r_[reg] == value;
    known_[reg] = known;
  }

  void read_late(const Op& op) {
    known_[op.reg] = Known::kNothing;
    snapshot_->late.push_back(op);
  }

  // ---- groups ----

  void open_group(const Op& op, uint32_t i) {
    bool stable = false;
    if (op.code == OpCode::kTypeGroup) {
      stable = expect_type_version(reinterpret_cast<PyTypeObject*>(op.object), i);
    } else {
      if (op.code == OpCode::kInstanceGroup) read_instance_dict(op, program_.groups_[op.number].instance, i);
      stable = known_[op.reg] != Known::kNothing && holds_ &&
               expect_dict(r_[op.reg], program_.groups_[op.number].ordered, i);
    }
    if (stable)
      stable_until_ = op.other;
    else
      program_.groups_[op.number].owner = nullptr;  // from here on the snapshot reads its registers
  }

  void read_instance_dict(const Op& op, uint32_t instance, uint32_t i) {
    if (known_[instance] == Known::kNothing || !r_[instance] || level(i) == Level::kAnew) return read_late(op);
    PyObject** slot = _PyObject_GetDictPtr(r_[instance]);
    if (!slot) return read_late(op);
    expect_type(instance, i);
    expect(slot, bits(r_[op.reg]), i);  // 0 while nothing was set
    known_[op.reg] = Known::kAddress;
  }

  // ---- reads ----

  void read(const Op& op, uint32_t i) {
    const bool of_frame =
        op.code <= OpCode::kStack || (op.code <= OpCode::kMethodFunction && is_new_each_call(op.other));
    if (of_frame && op.code != OpCode::kInstanceDict) return read_frame(op, i);
    if (op.code == OpCode::kInstanceDict) return read_instance_dict(op, op.other, i);
    if (op.code == OpCode::kAttr && known_[op.other] != Known::kNothing && expect_attribute(op, i)) return;
    if (op.code > OpCode::kMethodFunction || known_[op.other] == Known::kNothing || level(i) == Level::kAnew)
      return read_late(op);
    if (stable_until_) return set(op.reg, program_.read(op, inputs_), Known::kPinned);
    PyObject* base = r_[op.other];
    if (!base) return set(op.reg, nullptr, Known::kAddress);
    if (level(i) == Level::kByHolder && expect_part(op, base, i)) return;
    if (!followed_[op.reg]) return read_late(op);
    set(op.reg, program_.read(op, inputs_), Known::kAddress);
    snapshot_->rereads.push_back({snapshot_->words.size(), op, r_[op.reg], i});
  }

  bool is_new_each_call(uint32_t reg) const { return from_frame_[reg] && known_[reg] == Known::kNothing; }

  // What the frame gives, and parts of what it gives anew at each call. If more hangs on the object, it must be the one
  // that it was.
  void read_frame(const Op& op, uint32_t i) {
    from_frame_[op.reg] = true;
    snapshot_->front.push_back(op);
    set(op.reg, program_.read(op, inputs_), Known::kNothing);
    PyObject* value = r_[op.reg];
    if (!followed_[op.reg] || !value || level(i) != Level::kByHolder) return;
    // Binding the arguments makes these.
    if (PyCell_Check(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value)) return;
    known_[op.reg] = Known::kAddress;
    snapshot_->roots.push_back({op.reg, value, i});
  }

  // Whether the object in the register was found where `field` lies.
  bool expect_field(const Op& op, const void* field, uint32_t i) {
    expect_type(op.other, i);
    PyObject* found = *static_cast<PyObject* const*>(field);
    expect(field, bits(found), i);
    set(op.reg, program_.read(op, inputs_), Known::kAddress);
    return true;
  }

  bool expect_item(const Op& op, PyObject* base, const void* items, uint32_t i) {
    if (op.number >= static_cast<uint64_t>(Py_SIZE(base))) return false;
    expect_type(op.other, i);
    expect(&reinterpret_cast<PyVarObject*>(base)->ob_size, static_cast<uint64_t>(Py_SIZE(base)), i);
    return expect_field(op, static_cast<PyObject* const*>(items) + op.number, i);
  }

  bool expect_part(const Op& op, PyObject* base, uint32_t i) {
    switch (op.code) {
      case OpCode::kListItem:
        if (!PyList_Check(base)) return false;
        expect_type(op.other, i);
        expect(&reinterpret_cast<PyListObject*>(base)->ob_item, bits(reinterpret_cast<PyListObject*>(base)->ob_item),
               i);
        return expect_item(op, base, reinterpret_cast<PyListObject*>(base)->ob_item, i);
      case OpCode::kTupleItem:
        if (!PyTuple_Check(base)) return false;
        if (known_[op.other] == Known::kPinned) return expect_immutable(op);
        return expect_item(op, base, &PyTuple_GET_ITEM(base, 0), i);
      case OpCode::kCellContents:
        return PyCell_Check(base) && expect_field(op, &reinterpret_cast<PyCellObject*>(base)->ob_ref, i);
      case OpCode::kType:
        expect_type(op.other, i);
        set(op.reg, program_.read(op, inputs_), Known::kAddress);
        return true;
      case OpCode::kTypeAttr:
        if (!PyType_Check(base) || !expect_type_version(reinterpret_cast<PyTypeObject*>(base), i)) return false;
        set(op.reg, program_.read(op, inputs_), Known::kPinned);
        return true;
      case OpCode::kMethodSelf:
      case OpCode::kMethodFunction:
        if (!PyMethod_Check(base)) return false;
        if (known_[op.other] == Known::kPinned) return expect_immutable(op);
        return expect_field(op,
                            op.code == OpCode::kMethodSelf ? &reinterpret_cast<PyMethodObject*>(base)->im_self
                                                           : &reinterpret_cast<PyMethodObject*>(base)->im_func,
                            i);
      case OpCode::kDictItem:
        return false;
      default:
        return PyFunction_Check(base) && expect_field(op, function_field(op.code, base), i);
    }
  }

  bool expect_attribute(const Op& op, uint32_t i) {
    PyObject* base = r_[op.other];
    if (!base || level(i) != Level::kByHolder) return false;
    const AttributePlace place = place_of_attribute(base, op.object);
    if (!place.known()) return false;
    expect_type(op.other, i);
    if (!expect_type_version(Py_TYPE(base), i) || (place.type && !expect_type_version(place.type, i))) return false;
    if (place.field) {
      PyObject* found = *place.field;
      holds_ &= r_[op.reg] == (found || !place.empty_is_none ? found : Py_None);
      expect(place.field, bits(found), i);
    }
    known_[op.reg] = Known::kAddress;
    return true;
  }

  bool expect_immutable(const Op& op) {
    set(op.reg, program_.read(op, inputs_), Known::kPinned);
    return true;
  }

  static const void* function_field(OpCode code, PyObject* base) {
    auto* function = reinterpret_cast<PyFunctionObject*>(base);
    return code == OpCode::kFunctionCode         ? &function->func_code
           : code == OpCode::kFunctionDefaults   ? &function->func_defaults
           : code == OpCode::kFunctionKwDefaults ? &function->func_kwdefaults
                                                 : &function->func_closure;
  }

  // ---- guards ----

  void guard(const Op& op, uint32_t i) {
    if (op.code == OpCode::kGlobalState) return snapshot_->front.push_back(op);
    if (op.code == OpCode::kDictLengths) return lengths(op);
    const bool two = op.code == OpCode::kSame || op.code == OpCode::kNotSame;
    if (from_frame_[op.reg] && looks_at_object(op.code) && (!two || from_frame_[op.other]))
      return snapshot_->front.push_back(op);
    const bool known = known_[op.reg] != Known::kNothing && (!two || known_[op.other] != Known::kNothing);
    if (!known || !follows(op, i)) snapshot_->late.push_back(op);
  }

  static bool looks_at_object(OpCode code) {
    return code == OpCode::kTypeIs || code == OpCode::kIdIs || code == OpCode::kEquals || code == OpCode::kCompares ||
           code == OpCode::kTensorMatch || code == OpCode::kBound || code == OpCode::kUnbound ||
           code == OpCode::kSame || code == OpCode::kNotSame;
  }

  // Whether the guard holds by what the snapshot has seen, or will see of words and rows.
  bool follows(const Op& op, uint32_t i) {
    PyObject* value = r_[op.reg];
    const bool pinned = known_[op.reg] == Known::kPinned;
    switch (op.code) {
      case OpCode::kTypeIs:
        holds_ &= value && Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(op.object);
        if (holds_) expect_type(op.reg, i);
        return true;
      case OpCode::kIdIs:
      case OpCode::kBound:
      case OpCode::kUnbound:
      case OpCode::kSame:
      case OpCode::kNotSame:
        return test(op);
      case OpCode::kTensorMatch:
        holds_ &= value != nullptr;
        snapshot_->tensors.rows.push_back({value, op.object, program_.tensor_words_.data() + op.number, op.guard});
        return true;
      case OpCode::kEquals:
        return pinned && value && (value == op.object || compares_in_place(value)) && test(op);
      case OpCode::kCompares:
        return pinned && value && test(op);
      case OpCode::kApart:
        return test(op) && keep_apart(op);
      case OpCode::kLength:
        if (!value || !(PyTuple_Check(value) || PyList_Check(value))) return false;
        expect_type(op.reg, i);
        if (!pinned || !PyTuple_Check(value))
          expect(&reinterpret_cast<PyVarObject*>(value)->ob_size, static_cast<uint64_t>(Py_SIZE(value)), i);
        return test(op);
      case OpCode::kHasNoKey:
        return (stable_until_ || !value) && test(op);
      case OpCode::kTypeAttrAbsent:
      case OpCode::kMroIs:
        return stable_until_ && test(op);
      case OpCode::kDictKeys:
        return stable_until_ && compares_in_place(op.object) && test(op);
      default:
        return false;
    }
  }

  // What is known is apart for good. What is read at each check is compared with all.
  bool keep_apart(const Op& op) {
    constexpr size_t kFew = 8;
    GuardProgram::Snapshot::Apart set{op.guard};
    for (uint32_t member : program_.apart_sets_[op.number].members) {
      if (known_[member] == Known::kNothing)
        set.read.push_back(member);
      else
        set.known.push_back(r_[member]);
    }
    if (set.read.size() > kFew) return false;
    if (!set.read.empty()) snapshot_->apart_sets.push_back(std::move(set));
    return true;
  }

  bool test(const Op& op) {
    OwnedValues none;
    holds_ = holds_ && program_.test(op, inputs_, none);
    return true;
  }

  void lengths(const Op& op) {
    for (uint32_t n = 0; n < op.other; ++n) {
      const uint32_t at = static_cast<uint32_t>(op.number) + n;
      const uint32_t origin = static_cast<uint32_t>(ops_.size()) + at;
      const GuardProgram::DictLength& row = program_.dict_lengths_[at];
      PyObject* dict = r_[row.reg];
      if (known_[row.reg] == Known::kNothing || level(origin) == Level::kAnew) {
        snapshot_->late.push_back({OpCode::kDictLengths, row.reg, 1, row.guard, nullptr, at});
        continue;
      }
      holds_ &= dict && PyDict_Check(dict) && PyDict_GET_SIZE(dict) == row.length;
      if (holds_ && !expect_dict(dict, false, origin))
        expect(&reinterpret_cast<PyDictObject*>(dict)->ma_used, static_cast<uint64_t>(row.length), origin);
    }
  }

  GuardProgram& program_;
  const FrameInputs& inputs_;
  const std::vector<Op>& ops_;
  PyObject** r_;
  std::unique_ptr<GuardProgram::Snapshot> snapshot_ = std::make_unique<GuardProgram::Snapshot>();
  std::vector<Known> known_;
  std::vector<bool> typed_, from_frame_, followed_;  // by register
  uint32_t stable_until_ = 0;                        // inside of a group that is vouched for: its end
  bool holds_ = true;
};

// After a hit of the program. A snapshot costs about three checks: one that serves few is not soon followed by another.
void GuardProgram::leave_snapshot(const FrameInputs& inputs) {
  if (++waited_ <= patience_) return;
  waited_ = 0;
  changes_.resize(ops_.size() + dict_lengths_.size());
  snapshot_ = SnapshotBuilder(*this, inputs).build();
  if (!snapshot_) patience_ = std::min(2 * patience_, kMostPatience);
}

void GuardProgram::drop_snapshot() {
  for (const Snapshot::Watched& row : snapshot_->watched)
    if (row.dict == flag_.raised_by()) changed(row.origin);
  patience_ = snapshot_->hits < kFewHits ? std::min(2 * patience_, kMostPatience) : 1;
  snapshot_ = nullptr;
  flag_.renew();
}

}  // namespace framejit::runtime
