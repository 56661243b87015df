#include "bytecode/exception_table.h"

#include "base/check.h"

namespace framejit::bytecode {
namespace {

constexpr uint8_t kStartBit = 0x80;     // first byte of an entry
constexpr uint8_t kContinueBit = 0x40;  // more bytes of the number follow, six bits each, high bits first

uint32_t read_number(std::string_view table, size_t& at) {
  uint32_t value = 0;
  while (true) {
    FJ_CHECK(at < table.size(), "exception table ends inside an entry");
    const uint8_t byte = static_cast<uint8_t>(table[at++]);
    value = value << 6 | (byte & 0x3f);
    if (!(byte & kContinueBit)) return value;
  }
}

void write_number(std::string& table, uint32_t value, uint8_t first_bit) {
  FJ_CHECK(value < 1u << 30, "number {} is too large for an exception table", value);
  for (int shift = 24; shift > 0; shift -= 6) {
    if (value >> shift == 0) continue;
    table.push_back(static_cast<char>((value >> shift & 0x3f) | kContinueBit | first_bit));
    first_bit = 0;
  }
  table.push_back(static_cast<char>((value & 0x3f) | first_bit));
}

}  // namespace

std::vector<ExceptionEntry> parse_exception_table(std::string_view table) {
  std::vector<ExceptionEntry> entries;
  size_t at = 0;
  while (at < table.size()) {
    ExceptionEntry entry;
    entry.start = read_number(table, at);
    entry.end = entry.start + read_number(table, at);
    entry.handler = read_number(table, at);
    const uint32_t depth_and_lasti = read_number(table, at);
    entry.depth = static_cast<int32_t>(depth_and_lasti >> 1);
    entry.push_lasti = depth_and_lasti & 1;
    entries.push_back(entry);
  }
  return entries;
}

std::string write_exception_table(const std::vector<ExceptionEntry>& entries) {
  std::string table;
  for (const ExceptionEntry& entry : entries) {
    write_number(table, entry.start, kStartBit);
    write_number(table, entry.end - entry.start, 0);
    write_number(table, entry.handler, 0);
    write_number(table, static_cast<uint32_t>(entry.depth) << 1 | (entry.push_lasti ? 1 : 0), 0);
  }
  return table;
}

}  // namespace framejit::bytecode
