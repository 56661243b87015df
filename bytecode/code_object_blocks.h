// Reads code objects of the versions with a block stack (3.8 to 3.10). Included by their code_object_abi files only.
#pragma once

#include <string_view>

#include "base/check.h"
#include "bytecode/code_object.h"

namespace framejit::bytecode {

inline std::string_view bytes_view(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

inline void append_slots(CodeParts& parts, PyObject* names, Py_ssize_t& next, const LocalSlot& slot) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    Py_INCREF(name);
    PyTuple_SET_ITEM(parts.localsplus_names.get(), next++, name);
    parts.raw.slots.push_back(slot);
  }
}

// Frames hold locals, cells, free variables, in this order.
inline void read_slots(CodeParts& parts, PyCodeObject* code) {
  const Py_ssize_t locals = PyTuple_GET_SIZE(code->co_varnames);
  const Py_ssize_t cells = PyTuple_GET_SIZE(code->co_cellvars);
  const Py_ssize_t frees = PyTuple_GET_SIZE(code->co_freevars);
  parts.localsplus_names = Ref::steal(PyTuple_New(locals + cells + frees));
  FJ_CHECK(parts.localsplus_names, "out of memory");
  Py_ssize_t next = 0;
  LocalSlot local, cell, free;
  local.is_local = true;
  cell.is_cell = true;
  free.is_free = true;
  append_slots(parts, code->co_varnames, next, local);
  append_slots(parts, code->co_cellvars, next, cell);
  append_slots(parts, code->co_freevars, next, free);
  const int args = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) ? 1 : 0) +
                   ((code->co_flags & CO_VARKEYWORDS) ? 1 : 0);
  for (int i = 0; i < args; ++i) parts.raw.slots[i].is_argument = true;
  for (Py_ssize_t i = 0; code->co_cell2arg && i < cells; ++i) {
    if (code->co_cell2arg[i] == CO_CELL_NOT_AN_ARG) continue;
    parts.raw.slots[locals + i].from_arg = static_cast<int32_t>(code->co_cell2arg[i]);
  }
  parts.raw.local_count = static_cast<int32_t>(locals);
  parts.raw.cell_count = static_cast<int32_t>(cells);
  parts.raw.free_count = static_cast<int32_t>(frees);
}

inline CodeParts read_code_with_blocks(PyCodeObject* code, PyObject* line_table) {
  CodeParts parts;
  parts.raw.version = current_version();
  parts.code_bytes = Ref::borrow(code->co_code);
  parts.line_bytes = Ref::borrow(line_table);
  parts.raw.code = bytes_view(code->co_code);
  parts.raw.line_table = bytes_view(line_table);
  parts.raw.arg_count = code->co_argcount;
  parts.raw.posonly_arg_count = code->co_posonlyargcount;
  parts.raw.kwonly_arg_count = code->co_kwonlyargcount;
  parts.raw.flags = code->co_flags;
  parts.raw.stack_size = code->co_stacksize;
  parts.raw.first_line = code->co_firstlineno;
  parts.consts = Ref::borrow(code->co_consts);
  parts.names = Ref::borrow(code->co_names);
  parts.name = Ref::borrow(code->co_name);
  parts.qualname = Ref::borrow(code->co_name);
  parts.filename = Ref::borrow(code->co_filename);
  read_slots(parts, code);
  return parts;
}

}  // namespace framejit::bytecode
