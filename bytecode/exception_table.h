// The exception table of 3.11+: variable-length entries of (start, length, handler, depth and lasti) in code units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace framejit::bytecode {

struct ExceptionEntry {
  uint32_t start = 0;  // code units
  uint32_t end = 0;
  uint32_t handler = 0;
  int32_t depth = 0;
  bool push_lasti = false;
  friend bool operator==(const ExceptionEntry&, const ExceptionEntry&) = default;
};

std::vector<ExceptionEntry> parse_exception_table(std::string_view table);
std::string write_exception_table(const std::vector<ExceptionEntry>& entries);

}  // namespace framejit::bytecode
