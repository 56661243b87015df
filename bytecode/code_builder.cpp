#include "bytecode/code_builder.h"

#include "base/check.h"
#include "bytecode/code_object.h"
#include "bytecode/opcode_table.h"

namespace framejit::bytecode {
namespace {

// Attributes of the new code object, for code.replace().
class Changes {
 public:
  Changes() : dict_(Ref::steal(PyDict_New())) {}
  void set(const char* key, Ref value) {
    failed_ |= !dict_ || !value || PyDict_SetItemString(dict_.get(), key, value.get()) < 0;
  }
  void set(const char* key, long value) { set(key, Ref::steal(PyLong_FromLong(value))); }
  void set(const char* key, const std::string& bytes) {
    set(key, Ref::steal(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()))));
  }
  Ref apply(BorrowedRef code) const {
    if (failed_) return nullptr;
    const Ref replace = Ref::steal(PyObject_GetAttrString(code.get(), "replace"));
    const Ref no_args = Ref::steal(PyTuple_New(0));
    if (!replace || !no_args) return nullptr;
    return Ref::steal(PyObject_Call(replace.get(), no_args.get(), dict_.get()));
  }

 private:
  Ref dict_;
  bool failed_ = false;
};

Ref grown_tuple(BorrowedRef tuple, const std::vector<Ref>& added) {
  const Py_ssize_t old_size = PyTuple_GET_SIZE(tuple.get());
  Ref grown = Ref::steal(PyTuple_New(old_size + static_cast<Py_ssize_t>(added.size())));
  if (!grown) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grown.get()); ++i) {
    PyObject* item = i < old_size ? PyTuple_GET_ITEM(tuple.get(), i) : added[i - old_size].get();
    Py_INCREF(item);
    PyTuple_SET_ITEM(grown.get(), i, item);
  }
  return grown;
}

}  // namespace

CodeBuilder::CodeBuilder(DecodedCodePtr base) : base_(std::move(base)), assembler_(*base_), name_(base_->name) {}

void CodeBuilder::copy_all() {
  for (uint32_t i = 0; i < base_->size(); ++i) copy(InstrIndex(i));
}

InstrIndex CodeBuilder::body_start() const {
  if (!traits(base_->version).has_resume) return InstrIndex(0);
  uint32_t i = 0;
  while (base_->instructions[i].op != SimOp::kResume) ++i;
  return InstrIndex(i + 1);
}

void CodeBuilder::copy_prologue() {
  for (uint32_t i = 0; i < body_start().value; ++i) copy(InstrIndex(i));
}

int32_t CodeBuilder::add_const(BorrowedRef value) {
  const auto next = static_cast<int32_t>(PyTuple_GET_SIZE(base_->consts.get()) + added_consts_.size());
  const auto [place, added] = const_places_.try_emplace(value.get(), next);
  if (added) added_consts_.push_back(Ref::borrow(value));
  return place->second;
}

int32_t CodeBuilder::add_name(std::string_view name) {
  const Ref text = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  FJ_CHECK(text, "out of memory");
  const Py_ssize_t old_size = PyTuple_GET_SIZE(base_->names.get());
  for (Py_ssize_t i = 0; i < old_size; ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(base_->names.get(), i), text.get()) == 0) return static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < added_names_.size(); ++i) {
    if (PyUnicode_Compare(added_names_[i].get(), text.get()) == 0) return static_cast<int32_t>(old_size + i);
  }
  added_names_.push_back(text);
  return static_cast<int32_t>(old_size + added_names_.size() - 1);
}

void CodeBuilder::emit(std::string_view name, uint32_t arg) {
  const int opcode = find_opcode(base_->version, name);
  FJ_CHECK(opcode >= 0, "CPython {} has no {}", traits(base_->version).name, name);
  assembler_.emit(static_cast<uint16_t>(opcode), arg);
}

// The assembler turns whichever form this finds into the one for the jump's direction.
void CodeBuilder::emit_jump(SimOp op, uint8_t aux, Label target) {
  const OpcodeTable& table = opcode_table(base_->version);
  for (size_t opcode = 0; opcode < table.size(); ++opcode) {
    if (!is_jump(table[opcode].kind) || table[opcode].op != op || table[opcode].aux != aux) continue;
    return assembler_.emit_jump(static_cast<uint16_t>(opcode), target);
  }
  FJ_CHECK(false, "CPython {} has no jump {}", traits(base_->version).name, sim_op_name(op));
}

void CodeBuilder::load_const(BorrowedRef value) { emit("LOAD_CONST", static_cast<uint32_t>(add_const(value))); }

void CodeBuilder::load_int(long value) {
  const Ref number = Ref::steal(PyLong_FromLong(value));
  FJ_CHECK(number, "out of memory");
  load_const(number);
}

void CodeBuilder::load_none() { load_const(Py_None); }

void CodeBuilder::load_fast(int32_t slot) {
  emit(traits(base_->version).load_fast_checked, static_cast<uint32_t>(slot));
}
void CodeBuilder::store_fast(int32_t slot) { emit("STORE_FAST", static_cast<uint32_t>(slot)); }

void CodeBuilder::load_deref(int32_t slot) { emit("LOAD_DEREF", deref_arg(slot)); }
void CodeBuilder::store_deref(int32_t slot) { emit("STORE_DEREF", deref_arg(slot)); }

void CodeBuilder::load_closure(int32_t slot) {
  // 3.13 reads the cell as it reads any slot.
  const bool has_opcode = find_opcode(base_->version, "LOAD_CLOSURE") >= 0;
  emit(has_opcode ? "LOAD_CLOSURE" : "LOAD_FAST", deref_arg(slot));
}

uint32_t CodeBuilder::deref_arg(int32_t slot) const {
  return static_cast<uint32_t>(traits(base_->version).shares_cell_slots ? slot : slot - base_->local_count);
}

void CodeBuilder::load_attr(std::string_view name) { load_attr_at(add_name(name)); }

void CodeBuilder::load_attr_at(int32_t name) {
  const int opcode = find_opcode(base_->version, "LOAD_ATTR");
  const bool has_method_bit = opcode_table(base_->version)[opcode].kind == ArgKind::kNameOrMethod;
  emit("LOAD_ATTR", static_cast<uint32_t>(has_method_bit ? name << 1 : name));
}

void CodeBuilder::pop_top() { emit("POP_TOP"); }
void CodeBuilder::pop_top(int32_t count) {
  for (; count > 0; --count) pop_top();
}

void CodeBuilder::dup_top() {
  const bool has_copy = find_opcode(base_->version, "COPY") >= 0;
  emit(has_copy ? "COPY" : "DUP_TOP", has_copy ? 1 : 0);
}

void CodeBuilder::rot(int32_t n) {
  FJ_CHECK(n >= 2 && n <= 4, "rot({})", n);
  if (find_opcode(base_->version, "SWAP") < 0) return emit(n == 2 ? "ROT_TWO" : n == 3 ? "ROT_THREE" : "ROT_FOUR");
  for (; n >= 2; --n) emit("SWAP", static_cast<uint32_t>(n));
}

void CodeBuilder::swap(int32_t n) {
  FJ_CHECK(n >= 2 && n <= 4, "swap({})", n);
  if (find_opcode(base_->version, "SWAP") >= 0) return emit("SWAP", static_cast<uint32_t>(n));
  rot(n);  // [d, a, b, c]: the rest has to turn until a is on top
  for (int turns = n - 2; turns > 0; --turns) rot(n - 1);
}

void CodeBuilder::push_null() {
  if (find_opcode(base_->version, "PUSH_NULL") >= 0) return emit("PUSH_NULL");
  // LOAD_METHOD of what is no method leaves [NULL, value].
  load_none();
  emit("LOAD_METHOD", static_cast<uint32_t>(add_name("__class__")));
  pop_top();
}

void CodeBuilder::unpack_sequence(int32_t count) { emit("UNPACK_SEQUENCE", static_cast<uint32_t>(count)); }
void CodeBuilder::build_tuple(int32_t count) { emit("BUILD_TUPLE", static_cast<uint32_t>(count)); }

void CodeBuilder::call(int32_t argc) {
  const VersionTraits& version = traits(base_->version);
  if (version.call_layout == CallLayout::kPlain) return emit("CALL_FUNCTION", static_cast<uint32_t>(argc));
  if (version.has_precall) emit("PRECALL", static_cast<uint32_t>(argc));
  emit("CALL", static_cast<uint32_t>(argc));
}

void CodeBuilder::call_const(BorrowedRef callable, int32_t argc) {
  FJ_CHECK(argc >= 0 && argc <= 3, "call_const with {} arguments", argc);
  const CallLayout layout = traits(base_->version).call_layout;
  const auto below_arguments = [&] {
    if (argc > 0) rot(argc + 1);
  };
  if (layout == CallLayout::kNullBelow) {
    push_null();
    below_arguments();
  }
  load_const(callable);
  below_arguments();
  if (layout == CallLayout::kNullAbove) {
    push_null();
    below_arguments();
  }
  call(argc);
}

void CodeBuilder::call0(BorrowedRef callable) { call_const(callable, 0); }

void CodeBuilder::return_value() { emit("RETURN_VALUE"); }
void CodeBuilder::jump(Label target) { emit_jump(SimOp::kJump, 0, target); }

void CodeBuilder::pop_jump_if_true(Label target) {
  emit_jump(SimOp::kPopJumpIf, static_cast<uint8_t>(JumpCondition::kTrue), target);
}
void CodeBuilder::pop_jump_if_false(Label target) {
  emit_jump(SimOp::kPopJumpIf, static_cast<uint8_t>(JumpCondition::kFalse), target);
}

void CodeBuilder::branch_if_equal(long number, Label target) {
  dup_top();
  load_int(number);
  emit("COMPARE_OP", traits(base_->version).compare_equal_arg);
  pop_jump_if_true(target);
}

void CodeBuilder::nop() { emit("NOP"); }

void CodeBuilder::setup_finally(Label handler) {
  if (traits(base_->version).has_blocks) emit_jump(SimOp::kSetupFinally, 0, handler);
}
void CodeBuilder::pop_block() {
  if (traits(base_->version).has_blocks) emit("POP_BLOCK");
}

void CodeBuilder::copy_method_load_lowered(InstrIndex i) {
  const Instruction& instr = base_->at(i);
  const bool super = instr.op == SimOp::kLoadSuperAttr;
  FJ_CHECK(super ? (instr.aux & kSuperMethod) != 0 : instr.op == SimOp::kLoadMethod, "{} loads no method",
           sim_op_name(instr.op));
  if (!assembler_.bound(label_of(i))) bind(label_of(i));
  set_context(i);
  if (super) {
    assembler_.emit(instr.opcode, instr.raw_arg & ~uint32_t{kSuperMethod});
  } else {
    load_attr_at(instr.arg);
  }
  push_null();
  const auto layout = super ? static_cast<CallLayout>(instr.extra) : instr.layout();
  if (layout == CallLayout::kNullBelow) swap(2);
}

Ref CodeBuilder::finish() {
  AssembledCode assembled = assembler_.finish();
  offsets_ = std::move(assembled.offsets);
  Changes changes;
  changes.set("co_code", assembled.code);
  changes.set(line_table_attribute(), assembled.line_table);
  if (!traits(base_->version).has_blocks) changes.set("co_exceptiontable", assembled.exception_table);
  changes.set("co_stacksize", assembled.stack_size);
  const Ref consts = grown_tuple(base_->consts, added_consts_);
  for (const auto& [index, value] : replaced_consts_) {
    if (!consts) break;
    Py_INCREF(value.get());
    FJ_CHECK(PyTuple_SetItem(consts.get(), index, value.get()) == 0, "no constant {}", index);
  }
  changes.set("co_consts", consts);
  if (!added_names_.empty()) changes.set("co_names", grown_tuple(base_->names, added_names_));
  changes.set("co_name", name_);
  Ref made = changes.apply(base_->code);
  if (made) {
    restore_slot_kinds(reinterpret_cast<PyCodeObject*>(made.get()), reinterpret_cast<PyCodeObject*>(base_->code));
  }
  return made;
}

Ref reassemble(BorrowedRef code) {
  CodeBuilder builder(decode(code));
  builder.copy_all();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(builder.base().consts.get()); ++i) {
    PyObject* value = PyTuple_GET_ITEM(builder.base().consts.get(), i);
    if (!PyCode_Check(value)) continue;
    const Ref made = reassemble(value);
    if (!made) return nullptr;
    builder.replace_const(static_cast<int32_t>(i), made);
  }
  return builder.finish();
}

}  // namespace framejit::bytecode
