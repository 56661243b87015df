// The three line-table formats: co_lnotab (3.8, 3.9), co_linetable of 3.10, co_linetable of 3.11+ with columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytecode/instruction.h"
#include "bytecode/versions.h"

namespace framejit::bytecode {

// One position per code unit (two bytes of code).
std::vector<Position> parse_line_table(LineFormat format, std::string_view table, int first_line, size_t units);

// co_lnotab has no way to say "no line": such units take the line before them.
std::string write_line_table(LineFormat format, const std::vector<Position>& units, int first_line);

}  // namespace framejit::bytecode
