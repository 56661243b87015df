#include "tracer/own_frame.h"

#include <algorithm>
#include <initializer_list>

namespace framejit {
namespace {

bool names_one_of(const bytecode::DecodedCode& code, std::initializer_list<const char*> names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.names.get()); ++i) {
    PyObject* used = PyTuple_GET_ITEM(code.names.get(), i);
    if (std::any_of(names.begin(), names.end(),
                    [used](const char* name) { return PyUnicode_CompareWithASCIIString(used, name) == 0; }))
      return true;
  }
  return false;
}

}  // namespace

bool sees_locals(const bytecode::DecodedCode& code) {
  return asks_for_frame(code) || names_one_of(code, {"locals", "vars", "eval", "exec", "dir", "breakpoint", "super"});
}

bool asks_for_frame(const bytecode::DecodedCode& code) { return names_one_of(code, {"_getframe", "currentframe"}); }

}  // namespace framejit
