// Reads code objects of the versions with exception tables (3.11+). Included by their code_object_abi files only.
#pragma once

#include <string_view>

#include "base/check.h"
#include "bytecode/code_object.h"

namespace framejit::bytecode {

// CO_FAST_* of CPython's pycore_code.h.
inline constexpr uint8_t kFastLocal = 0x20;
inline constexpr uint8_t kFastCell = 0x40;
inline constexpr uint8_t kFastFree = 0x80;

inline std::string_view bytes_view(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

inline void read_slots(CodeParts& parts, PyCodeObject* code) {
  const int args = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) ? 1 : 0) +
                   ((code->co_flags & CO_VARKEYWORDS) ? 1 : 0);
  int index = 0;
  for (char byte : bytes_view(code->co_localspluskinds)) {
    const uint8_t kind = static_cast<uint8_t>(byte);
    LocalSlot slot;
    slot.is_local = kind & kFastLocal;
    slot.is_cell = kind & kFastCell;
    slot.is_free = kind & kFastFree;
    slot.is_argument = index++ < args;
    parts.raw.local_count += slot.is_local;
    parts.raw.cell_count += slot.is_cell;
    parts.raw.free_count += slot.is_free;
    parts.raw.slots.push_back(slot);
  }
}

inline CodeParts read_code_with_regions(PyCodeObject* code) {
  CodeParts parts;
  parts.raw.version = current_version();
  parts.code_bytes = Ref::steal(PyCode_GetCode(code));
  FJ_CHECK(parts.code_bytes, "out of memory");
  parts.line_bytes = Ref::borrow(code->co_linetable);
  parts.exception_bytes = Ref::borrow(code->co_exceptiontable);
  parts.raw.code = bytes_view(parts.code_bytes.get());
  parts.raw.line_table = bytes_view(code->co_linetable);
  parts.raw.exception_table = bytes_view(code->co_exceptiontable);
  parts.raw.arg_count = code->co_argcount;
  parts.raw.posonly_arg_count = code->co_posonlyargcount;
  parts.raw.kwonly_arg_count = code->co_kwonlyargcount;
  parts.raw.flags = code->co_flags;
  parts.raw.stack_size = code->co_stacksize;
  parts.raw.first_line = code->co_firstlineno;
  parts.consts = Ref::borrow(code->co_consts);
  parts.names = Ref::borrow(code->co_names);
  parts.localsplus_names = Ref::borrow(code->co_localsplusnames);
  parts.name = Ref::borrow(code->co_name);
  parts.qualname = Ref::borrow(code->co_qualname);
  parts.filename = Ref::borrow(code->co_filename);
  read_slots(parts, code);
  return parts;
}

// code.replace() rebuilds the kinds from the names and so forgets which locals of an inlined comprehension are hidden.
inline void copy_slot_kinds(PyCodeObject* made, PyCodeObject* base) {
  FJ_CHECK(PyBytes_GET_SIZE(made->co_localspluskinds) == PyBytes_GET_SIZE(base->co_localspluskinds),
           "the new code object has other slots");
  Py_INCREF(base->co_localspluskinds);
  Py_SETREF(made->co_localspluskinds, base->co_localspluskinds);
}

}  // namespace framejit::bytecode
