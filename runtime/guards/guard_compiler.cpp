// Orders the guards of a capture into a program: each source's read before its first use, and all that hangs on one
// dictionary together, where the dictionary itself is first known.
#include "base/check.h"
#include "runtime/guards/by_owner.h"
#include "runtime/guards/snapshot.h"
#include "runtime/python_util.h"

namespace framejit::runtime {

using graph::Guard;
using graph::GuardKind;
using graph::Source;
using graph::SourceId;
using graph::SourceKind;

class GuardCompiler {
 public:
  explicit GuardCompiler(GuardProgram& program)
      : program_(program), sources_(program.capture_.sources), guards_(program.capture_.guards.rows()) {}

  void compile() {
    learn();
    for (uint32_t i = 0; i < guards_.size(); ++i) {
      if (guards_[i].source.valid()) read(guards_[i].source, i);
      if (guards_[i].other.valid()) read(guards_[i].other, i);
      emit_guard(i);
    }
    const uint32_t unguarded = static_cast<uint32_t>(guards_.size());
    for (SourceId source : required_) {
      read(source, unguarded);
      if (!guarded_[source.index()] && sources_.at(source).kind != SourceKind::kConst)
        add({OpCode::kBound, source.value, 0, unguarded});
    }
  }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  using OpCode = GuardProgram::OpCode;
  using Op = GuardProgram::Op;

  PyObject* object(graph::ConstId id) const { return program_.pool_.at(id); }
  uint32_t next() const { return static_cast<uint32_t>(program_.ops_.size()); }
  void add(const Op& op) { program_.ops_.push_back(op); }

  // ---- what is needed, and what hangs on which dictionary ----

  void learn() {
    const size_t count = sources_.size();
    needed_.assign(count, false);
    read_.assign(count, false);
    guarded_.assign(count, false);
    static_type_.assign(count, nullptr);
    owner_.assign(count, SourceId());
    group_of_.assign(count, kNone);
    type_guard_.assign(count, kNone);
    emitted_.assign(guards_.size(), false);
    program_.registers_.assign(std::max<size_t>(count, 1), nullptr);  // one that every operation may name
    for (uint32_t i = 0; i < guards_.size(); ++i) learn_guard(i);
    const graph::Capture& capture = program_.capture_;
    for (SourceId source : capture.input_sources) require(source);
    for (size_t i = 0; i < capture.recipes.size(); ++i) {
      const graph::Recipe& recipe = capture.recipes.at(graph::RecipeId(i));
      if (recipe.kind == graph::RecipeKind::kSource) require(recipe.source);
    }
    for (size_t i = 0; i < count; ++i)
      if (needed_[i]) learn_owner(SourceId(i));
    guard_owner_.reserve(guards_.size());
    for (const Guard& guard : guards_) guard_owner_.push_back(owner_of_guard(guard));
    group_sources_.sort(owner_, count);
    group_guards_.sort(guard_owner_, count);
  }

  void require(SourceId source) {
    need(source);
    required_.push_back(source);
  }

  void need(SourceId source) {
    for (; source.valid() && !needed_[source.index()]; source = sources_.at(source).base)
      needed_[source.index()] = true;
  }

  void learn_guard(uint32_t i) {
    const Guard& guard = guards_[i];
    if (guard.source.valid()) {
      need(guard.source);
      if (guard.kind != GuardKind::kUnbound && guard.kind != GuardKind::kApart) guarded_[guard.source.index()] = true;
    }
    if (guard.other.valid()) need(guard.other);
    if (guard.kind != GuardKind::kTypeIs) return;
    // `obj.__class__ = T` works on instances of heap types only.
    auto* type = reinterpret_cast<PyTypeObject*>(object(guard.object));
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) return;
    static_type_[guard.source.index()] = type;
    type_guard_[guard.source.index()] = i;
  }

  bool is_constant(SourceId id) const { return sources_.at(id).kind == SourceKind::kConst; }

  // The dictionary or constant type whose version says that a source's value is what it was; invalid: read each time.
  void learn_owner(SourceId id) {
    const Source& source = sources_.at(id);
    SourceId owner;
    if (source.kind == SourceKind::kDictItem) owner = source.base;
    if (source.kind == SourceKind::kTypeAttr && is_constant(source.base)) owner = source.base;
    if (source.kind == SourceKind::kTupleItem || source.kind == SourceKind::kMethodSelf ||
        source.kind == SourceKind::kMethodFunction)
      owner = owner_[source.base.index()];
    owner_[id.index()] = owner;
  }

  SourceId owner_of_guard(const Guard& guard) const {
    if (!guard.source.valid()) return {};
    SourceId owner = owner_[guard.source.index()];
    PyTypeObject* type = static_type_[guard.source.index()];
    switch (guard.kind) {
      case GuardKind::kHasNoKey:
        return guard.source;
      case GuardKind::kDictKeys:
        // A subclass may change the order of its keys, and no version tells of it.
        return type && type != &PyDict_Type ? SourceId() : guard.source;
      case GuardKind::kTypeAttrAbsent:
      case GuardKind::kMroIs:
        return is_constant(guard.source) ? guard.source : SourceId();
      case GuardKind::kIdIs:
      case GuardKind::kEquals:
      case GuardKind::kCompares:
      case GuardKind::kNotUnbound:
      case GuardKind::kUnbound:
      case GuardKind::kTypeAttrIs:
        return owner;
      case GuardKind::kTypeIs:
        return type ? owner : SourceId();
      case GuardKind::kLength:
        return type == &PyTuple_Type || type == &PyFrozenSet_Type ? owner : SourceId();
      case GuardKind::kSetGives:
        return type == &PyFrozenSet_Type ? owner : SourceId();
      default:
        return {};
    }
  }

  // ---- emission ----

  void read(SourceId id, uint32_t guard) {
    if (read_[id.index()]) return;
    const Source& source = sources_.at(id);
    if (source.base.valid()) read(source.base, guard);
    if (owner_[id.index()].valid()) {
      read(owner_[id.index()], guard);
      open_group(owner_[id.index()], guard);
      FJ_CHECK(read_[id.index()], "source {} is not in its group", id.value);
      return;
    }
    read_[id.index()] = true;
    emit_read(id, source, guard);
  }

  void emit_read(SourceId id, const Source& source, uint32_t guard) {
    Op op{OpCode::kLocal, id.value, source.base.valid() ? source.base.value : 0, guard, nullptr, source.index};
    if (source.object.valid()) op.object = object(source.object);
    switch (source.kind) {
      case SourceKind::kConst:
        program_.registers_[id.index()] = op.object;
        return;
      case SourceKind::kDictItem: {
        Py_hash_t hash = PyObject_Hash(op.object);
        FJ_CHECK(hash != -1 || !PyErr_Occurred(), "a dictionary key cannot be hashed");
        op.number = static_cast<uint64_t>(hash);
        break;
      }
      case SourceKind::kInstanceDict:
        op.number = program_.dict_slots_.size();
        program_.dict_slots_.emplace_back();
        break;
      case SourceKind::kTensorGrad: {
        static PyObject* const grad = PyUnicode_InternFromString("grad");
        op.object = grad;
        break;
      }
      default:
        break;
    }
    op.code = read_code(source.kind);
    add(op);
  }

  static OpCode read_code(SourceKind kind) {
    switch (kind) {
      case SourceKind::kLocal:
        return OpCode::kLocal;
      case SourceKind::kStack:
        return OpCode::kStack;
      case SourceKind::kAttr:
        return OpCode::kAttr;
      case SourceKind::kInstanceDict:
        return OpCode::kInstanceDict;
      case SourceKind::kDictItem:
        return OpCode::kDictItem;
      case SourceKind::kListItem:
        return OpCode::kListItem;
      case SourceKind::kTupleItem:
        return OpCode::kTupleItem;
      case SourceKind::kCellContents:
        return OpCode::kCellContents;
      case SourceKind::kType:
        return OpCode::kType;
      case SourceKind::kFunctionDefaults:
        return OpCode::kFunctionDefaults;
      case SourceKind::kFunctionKwDefaults:
        return OpCode::kFunctionKwDefaults;
      case SourceKind::kFunctionClosure:
        return OpCode::kFunctionClosure;
      case SourceKind::kFunctionCode:
        return OpCode::kFunctionCode;
      case SourceKind::kMethodSelf:
        return OpCode::kMethodSelf;
      case SourceKind::kMethodFunction:
        return OpCode::kMethodFunction;
      case SourceKind::kSequenceItem:
        return OpCode::kSequenceItem;
      case SourceKind::kTensorGrad:
        return OpCode::kTensorGrad;
      case SourceKind::kReferent:
        return OpCode::kReferent;
      case SourceKind::kContextVar:
        return OpCode::kContextVar;
      case SourceKind::kTypeAttr:
        return OpCode::kTypeAttr;
      case SourceKind::kConst:
        break;
    }
    FJ_CHECK(false, "source kind {} has no read", static_cast<int>(kind));
    return OpCode::kLocal;
  }

  // All that hangs on one dictionary or constant type.
  void open_group(SourceId owner, uint32_t guard) {
    if (group_of_[owner.index()] != kNone) return;
    const uint32_t group = static_cast<uint32_t>(program_.groups_.size());
    group_of_[owner.index()] = group;
    program_.groups_.emplace_back();
    const bool of_type = is_constant(owner) && PyType_Check(program_.registers_[owner.index()]);
    PyObject* type = of_type ? program_.registers_[owner.index()] : nullptr;
    const bool of_instance = was_just_read(owner, OpCode::kInstanceDict);
    if (of_instance) {
      program_.groups_[group].instance = program_.ops_.back().other;
      program_.ops_.pop_back();
      program_.dict_slots_.pop_back();
    }
    const uint32_t start = next();
    const OpCode open = of_type ? OpCode::kTypeGroup : of_instance ? OpCode::kInstanceGroup : OpCode::kDictGroup;
    add({open, owner.value, 0, guard, type, group});
    for (uint32_t member : group_sources_.of(owner))
      if (!read_[member]) {
        read_[member] = true;
        emit_read(SourceId(member), sources_.at(SourceId(member)), guard_that_needs(SourceId(member), guard));
      }
    for (uint32_t i : group_guards_.of(owner)) emit_row(i);
    add({of_type ? OpCode::kTypeArm : OpCode::kDictArm, owner.value, 0, guard, type, group});
    program_.ops_[start].other = next();
  }

  bool was_just_read(SourceId source, OpCode code) const {
    return !program_.ops_.empty() && program_.ops_.back().code == code && program_.ops_.back().reg == source.value;
  }

  uint32_t guard_that_needs(SourceId source, uint32_t otherwise) const {
    for (uint32_t i = 0; i < guards_.size() && guards_.size() < 64; ++i)
      if (guards_[i].source == source) return i;
    return otherwise;
  }

  void emit_guard(uint32_t i) {
    if (emitted_[i]) return;
    if (SourceId owner = guard_owner_[i]; owner.valid()) {
      read(owner, i);
      open_group(owner, i);
    }
    if (!emitted_[i]) emit_row(i);
  }

  void emit_row(uint32_t i) {
    const Guard& guard = guards_[i];
    emitted_[i] = true;
    Op op{OpCode::kBound,
          guard.source.valid() ? guard.source.value : 0,
          guard.other.valid() ? guard.other.value : 0,
          i,
          guard.object.valid() ? object(guard.object) : nullptr,
          guard.number};
    op.code = guard_code(guard.kind);
    if (guard.kind == GuardKind::kTensorMatch) {
      const graph::TensorFacts& facts = program_.capture_.tensor_facts[guard.number];
      op.object = object(facts.python_type);
      op.number = program_.tensor_words_.size();
      program_.tensors_.pack(facts, program_.tensor_words_);
    } else if (guard.kind == GuardKind::kHasNoKey) {
      op.number = static_cast<uint64_t>(PyObject_Hash(op.object));
    } else if (guard.kind == GuardKind::kDictKeys && guard_owner_[i].valid()) {
      program_.groups_[group_of_[guard.source.index()]].ordered = true;
    } else if (guard.kind == GuardKind::kLength && is_dict(guard.source)) {
      // What reads the field of a dictionary comes after what has seen one.
      if (const uint32_t type = type_guard_[guard.source.index()]; type != kNone) emit_guard(type);
      return add_dict_length(op);
    } else if (guard.kind == GuardKind::kApart && !ends_apart_set(i, op)) {
      return;
    }
    add(op);
  }

  // One operation for the whole set, at its last row.
  bool ends_apart_set(uint32_t i, Op& op) {
    auto& sets = program_.apart_sets_;
    auto in_same_set = [&](uint32_t row) {
      return row < guards_.size() && guards_[row].kind == GuardKind::kApart && guards_[row].number == op.number;
    };
    if (i == 0 || !in_same_set(i - 1)) sets.emplace_back();
    sets.back().members.push_back(op.reg);
    if (in_same_set(i + 1)) return false;
    size_t room = 4;
    while (room < 2 * sets.back().members.size()) room *= 2;
    sets.back().table.resize(room);
    op.number = sets.size() - 1;
    return true;
  }

  static OpCode guard_code(GuardKind kind) {
    switch (kind) {
      case GuardKind::kTypeIs:
        return OpCode::kTypeIs;
      case GuardKind::kTypeAttrIs:
      case GuardKind::kIdIs:
        return OpCode::kIdIs;
      case GuardKind::kEquals:
        return OpCode::kEquals;
      case GuardKind::kCompares:
        return OpCode::kCompares;
      case GuardKind::kTensorMatch:
        return OpCode::kTensorMatch;
      case GuardKind::kNotUnbound:
        return OpCode::kBound;
      case GuardKind::kUnbound:
        return OpCode::kUnbound;
      case GuardKind::kHasNoKey:
        return OpCode::kHasNoKey;
      case GuardKind::kDictKeys:
        return OpCode::kDictKeys;
      case GuardKind::kLength:
        return OpCode::kLength;
      case GuardKind::kSetGives:
        return OpCode::kSetGives;
      case GuardKind::kMroIs:
        return OpCode::kMroIs;
      case GuardKind::kSameObject:
        return OpCode::kSame;
      case GuardKind::kNotSameObject:
        return OpCode::kNotSame;
      case GuardKind::kTypeAttrAbsent:
        return OpCode::kTypeAttrAbsent;
      case GuardKind::kAnswers:
        return OpCode::kAnswers;
      case GuardKind::kGlobalState:
        return OpCode::kGlobalState;
      case GuardKind::kNothingHandled:
        return OpCode::kNothingHandled;
      case GuardKind::kApart:
        return OpCode::kApart;
      case GuardKind::kNoGradHooks:
        return OpCode::kNoGradHooks;
    }
    FJ_CHECK(false, "guard kind {} has no instruction", static_cast<int>(kind));
    return OpCode::kBound;
  }

  // Joins the run of lengths that the program ends with, if it does. A group never ends with one.
  void add_dict_length(const Op& op) {
    const bool joins = !program_.ops_.empty() && program_.ops_.back().code == OpCode::kDictLengths;
    if (!joins) add({OpCode::kDictLengths, op.reg, 0, op.guard, nullptr, program_.dict_lengths_.size()});
    ++program_.ops_.back().other;
    program_.dict_lengths_.push_back({op.reg, op.guard, static_cast<Py_ssize_t>(op.number)});
  }

  bool is_dict(SourceId source) const {
    PyTypeObject* type = static_type_[source.index()];
    return sources_.at(source).kind == SourceKind::kInstanceDict ||
           (type && PyType_HasFeature(type, Py_TPFLAGS_DICT_SUBCLASS));
  }

  GuardProgram& program_;
  const graph::SourceTable& sources_;
  const std::vector<Guard>& guards_;
  std::vector<bool> needed_, read_, guarded_, emitted_;
  std::vector<PyTypeObject*> static_type_;
  std::vector<SourceId> owner_, guard_owner_;
  std::vector<SourceId> required_;
  ByOwner group_sources_, group_guards_;
  std::vector<uint32_t> group_of_, type_guard_;  // by source; kNone: there is none
};

GuardProgram::GuardProgram(const graph::Capture& capture, const ConstTable& pool, const TensorGuards& tensors)
    : capture_(capture), pool_(pool), tensors_(tensors) {
  GuardCompiler(*this).compile();
}

}  // namespace framejit::runtime
