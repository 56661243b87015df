// Bytes of any version to canonical instructions.
#pragma once

#include <string_view>
#include <vector>

#include "bytecode/decoded.h"

namespace framejit::bytecode {

// What a code object holds, less its Python objects. The views must outlive the call of decode_bytes only.
struct RawCode {
  Version version = Version::kPy312;
  std::string_view code;  // specialisation undone
  std::string_view line_table;
  std::string_view exception_table;
  std::vector<LocalSlot> slots;
  int32_t arg_count = 0;
  int32_t posonly_arg_count = 0;
  int32_t kwonly_arg_count = 0;
  int32_t flags = 0;
  int32_t local_count = 0;
  int32_t cell_count = 0;
  int32_t free_count = 0;
  int32_t stack_size = 0;
  int32_t first_line = 1;
};

// Throws InternalError on bytes that are no code of that version.
void decode_bytes(const RawCode& raw, Decoded& out);

// The canonical form of one instruction; `local_count` as in RawCode. Targets are left out.
Instruction canonical(Version version, uint16_t opcode, uint32_t raw_arg, int32_t local_count);

}  // namespace framejit::bytecode
