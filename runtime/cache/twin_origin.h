// What a twin knows of the function that it runs for, kept with its code object.
#pragma once

#include "bytecode/offset_map.h"
#include "runtime/engine.h"

namespace framejit::runtime {

struct TwinOrigin {
  CodeMark mark = CodeMark::kTwin;  // first: what code_mark() finds
  Ref code;                         // weak reference to the function's own code
  bytecode::OffsetMap offsets;
};

// Leaves no Python error.
void mark_twin(PyObject* twin, PyObject* own_code, bytecode::OffsetMap offsets);
// Null: the code is no twin's.
const TwinOrigin* twin_origin(PyObject* code);

}  // namespace framejit::runtime
