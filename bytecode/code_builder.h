// Builds a code object of the running version from a decoded one: the assembler with growing pools of constants and
// names, and a vocabulary in which no version shows. Stack comments: [before] -> [after], top on the right.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/py_ref.h"
#include "bytecode/assembler.h"
#include "bytecode/decoded_code.h"

namespace framejit::bytecode {

class CodeBuilder {
 public:
  explicit CodeBuilder(DecodedCodePtr base);

  const DecodedCode& base() const { return *base_; }
  Assembler& assembler() { return assembler_; }

  // Labels, copying, context: the assembler's.
  Label new_label() { return assembler_.new_label(); }
  void bind(Label label) { assembler_.bind(label); }
  Label label_of(InstrIndex i) const { return assembler_.label_of(i); }
  void copy(InstrIndex i) { assembler_.copy(i); }
  void copy_all();
  // Copies what a frame needs before its body runs (COPY_FREE_VARS, MAKE_CELL, RESUME; nothing before 3.11).
  void copy_prologue();
  // The first instruction after the prologue.
  InstrIndex body_start() const;
  void set_context(InstrIndex i) { assembler_.set_context(i); }
  // 3.11+: whether what follows lies in the exception region of the context's instruction (set_context puts it there).
  void leave_region() { assembler_.set_region(kNoRegion); }

  int32_t add_const(BorrowedRef value);  // the same object is stored once
  // The new code object has another constant at this index of the base's.
  void replace_const(int32_t index, BorrowedRef value) { replaced_consts_[index] = Ref::borrow(value); }
  int32_t add_name(std::string_view name);

  void load_const(BorrowedRef value);  // [] -> [value]
  void load_int(long value);
  void load_none();
  void load_fast(int32_t slot);  // UnboundLocalError if unbound
  void store_fast(int32_t slot);
  void load_deref(int32_t slot);
  void store_deref(int32_t slot);
  void load_closure(int32_t slot);        // [] -> [cell]
  void load_attr(std::string_view name);  // [owner] -> [value]
  void pop_top();
  void pop_top(int32_t count);
  void dup_top();
  void swap(int32_t n);                 // exchanges the top with the n-th value, 1 being the top; n is 2 to 4
  void rot(int32_t n);                  // moves the top down to place n; n is 2 to 4
  void push_null();                     // [] -> [NULL], every version
  void unpack_sequence(int32_t count);  // [tuple] -> [last .. first], so that the first element is on top
  void build_tuple(int32_t count);
  void call0(BorrowedRef callable);                     // [] -> [callable()]
  void call_const(BorrowedRef callable, int32_t argc);  // [a1 .. an] -> [callable(a1 .. an)]; argc <= 3
  void return_value();
  void jump(Label target);
  void pop_jump_if_true(Label target);  // [bool] -> []
  void pop_jump_if_false(Label target);
  void branch_if_equal(long number, Label target);  // [int] -> [int], jumps if int == number
  void nop();

  // Block stack, 3.8 to 3.10; on 3.11+ they emit nothing, exception regions are part of the context.
  void setup_finally(Label handler);
  void pop_block();

  // Copies a LoadMethod so that it always leaves its NULL slot NULL: kNullBelow [NULL, bound], kNullAbove [bound,
  // NULL].
  void copy_method_load_lowered(InstrIndex i);

  // What differs from the base in the new code object.
  void set_name(BorrowedRef name) { name_ = Ref::borrow(name); }

  // A new code object. Throws InternalError; the interpreter's own errors (memory) stay set and give a null Ref.
  Ref finish();
  // Of the new code object.
  OffsetMap take_offsets() { return std::move(offsets_); }

 private:
  void emit(std::string_view name, uint32_t arg = 0);
  void emit_jump(SimOp op, uint8_t aux, Label target);
  void call(int32_t argc);
  void load_attr_at(int32_t name);
  uint32_t deref_arg(int32_t slot) const;

  DecodedCodePtr base_;
  Assembler assembler_;
  std::vector<Ref> added_consts_;
  std::unordered_map<PyObject*, int32_t> const_places_;
  std::unordered_map<int32_t, Ref> replaced_consts_;
  std::vector<Ref> added_names_;
  Ref name_;
  OffsetMap offsets_;
};

// Decodes and assembles unchanged, code objects among the constants too: for tests.
Ref reassemble(BorrowedRef code);

}  // namespace framejit::bytecode
