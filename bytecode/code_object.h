// Code objects of the running version: the only door between bytecode/ and CPython's own structure.
#pragma once

#include "base/py_ref.h"
#include "bytecode/decoder.h"

namespace framejit::bytecode {

// Everything that decoding reads. `raw` views the bytes objects beside it.
struct CodeParts {
  RawCode raw;
  Ref code_bytes;
  Ref line_bytes;
  Ref exception_bytes;
  Ref consts;
  Ref names;
  Ref localsplus_names;
  Ref name;
  Ref qualname;
  Ref filename;
};

// The four below are in code_object_abi_3x.cpp: one file per version, CMake picks it.
Version current_version();
CodeParts read_code(PyCodeObject* code);
const char* line_table_attribute();
// Puts back what code.replace() loses. `made` has the slots of `base`.
void restore_slot_kinds(PyCodeObject* made, PyCodeObject* base);

}  // namespace framejit::bytecode
