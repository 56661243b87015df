#include "bytecode/code_object_blocks.h"

static_assert(PY_VERSION_HEX >> 16 == 0x0308);

namespace framejit::bytecode {

Version current_version() { return Version::kPy38; }
const char* line_table_attribute() { return "co_lnotab"; }
CodeParts read_code(PyCodeObject* code) { return read_code_with_blocks(code, code->co_lnotab); }
void restore_slot_kinds(PyCodeObject*, PyCodeObject*) {}

}  // namespace framejit::bytecode
