#include "bytecode/code_object_regions.h"

static_assert(PY_VERSION_HEX >> 16 == 0x030b);

namespace framejit::bytecode {

Version current_version() { return Version::kPy311; }
const char* line_table_attribute() { return "co_linetable"; }
CodeParts read_code(PyCodeObject* code) { return read_code_with_regions(code); }
void restore_slot_kinds(PyCodeObject* made, PyCodeObject* base) { copy_slot_kinds(made, base); }

}  // namespace framejit::bytecode
