#include "bytecode/line_table.h"

#include "base/check.h"

namespace framejit::bytecode {
namespace {

constexpr int kUnitBytes = 2;

void fill_lines(std::vector<Position>& units, size_t& unit, size_t end, int line) {
  for (end = std::min(end, units.size()); unit < end; ++unit) units[unit].line = line;
}

// Pairs of (bytes of code, signed change of the line that follows them).
std::vector<Position> parse_lnotab(std::string_view table, int first_line, size_t unit_count) {
  std::vector<Position> units(unit_count);
  int line = first_line;
  size_t byte = 0;
  size_t unit = 0;
  for (size_t at = 0; at + 1 < table.size(); at += 2) {
    byte += static_cast<uint8_t>(table[at]);
    fill_lines(units, unit, byte / kUnitBytes, line);
    line += static_cast<int8_t>(table[at + 1]);
  }
  fill_lines(units, unit, unit_count, line);
  return units;
}

void push_pair(std::string& table, int bytes, int line_change) {
  table.push_back(static_cast<char>(bytes));
  table.push_back(static_cast<char>(line_change));
}

std::string write_lnotab(const std::vector<Position>& units, int first_line) {
  std::string table;
  int line = first_line;
  size_t written = 0;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    int change = units[unit].line - line;
    if (units[unit].line < 0 || change == 0) continue;
    int bytes = static_cast<int>(unit - written) * kUnitBytes;
    for (; bytes > 255; bytes -= 255) push_pair(table, 255, 0);
    for (; change > 127; change -= 127, bytes = 0) push_pair(table, bytes, 127);
    for (; change < -128; change += 128, bytes = 0) push_pair(table, bytes, -128);
    push_pair(table, bytes, change);
    line = units[unit].line;
    written = unit;
  }
  return table;
}

constexpr int kNoLine = -128;

// Pairs of (bytes of code, signed change of the line that holds for them; -128: they have none).
std::vector<Position> parse_ranges(std::string_view table, int first_line, size_t unit_count) {
  std::vector<Position> units(unit_count);
  int line = first_line;
  size_t byte = 0;
  size_t unit = 0;
  for (size_t at = 0; at + 1 < table.size(); at += 2) {
    const auto encoded = static_cast<uint8_t>(table[at + 1]);
    const int change = encoded < 0x80 ? encoded : encoded - 0x100;
    if (change != kNoLine) line += change;
    byte += static_cast<uint8_t>(table[at]);
    fill_lines(units, unit, byte / kUnitBytes, change == kNoLine ? -1 : line);
  }
  return units;
}

std::string write_ranges(const std::vector<Position>& units, int first_line) {
  std::string table;
  int line = first_line;
  for (size_t start = 0; start < units.size();) {
    size_t end = start + 1;
    while (end < units.size() && units[end].line == units[start].line) ++end;
    int bytes = static_cast<int>(end - start) * kUnitBytes;
    int change = kNoLine;
    if (units[start].line >= 0) {
      change = units[start].line - line;
      line = units[start].line;
      for (; change > 127; change -= 127) push_pair(table, 0, 127);
      for (; change < -127; change += 127) push_pair(table, 0, -127);
    }
    for (; bytes > 254; bytes -= 254) {
      push_pair(table, 254, change);
      if (change != kNoLine) change = 0;
    }
    push_pair(table, bytes, change);
    start = end;
  }
  return table;
}

// 3.11+: entries of up to eight code units. The first byte is 0x80 | code << 3 | (units - 1).
enum LocationCode { kShortest = 0, kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15 };
constexpr size_t kMaxEntryUnits = 8;

uint32_t read_varint(std::string_view table, size_t& at) {
  uint32_t value = 0;
  for (int shift = 0;; shift += 6) {
    FJ_CHECK(at < table.size(), "location table ends inside an entry");
    const uint8_t byte = static_cast<uint8_t>(table[at++]);
    value |= static_cast<uint32_t>(byte & 0x3f) << shift;
    if (!(byte & 0x40)) return value;
  }
}

int read_signed_varint(std::string_view table, size_t& at) {
  const uint32_t value = read_varint(table, at);
  return value & 1 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
}

void write_varint(std::string& table, uint32_t value) {
  for (; value >= 64; value >>= 6) table.push_back(static_cast<char>(0x40 | (value & 0x3f)));
  table.push_back(static_cast<char>(value));
}

void write_signed_varint(std::string& table, int value) {
  write_varint(table, value < 0 ? static_cast<uint32_t>(-value) << 1 | 1 : static_cast<uint32_t>(value) << 1);
}

Position read_location(std::string_view table, size_t& at, int code, int& line) {
  auto byte = [&] {
    FJ_CHECK(at < table.size(), "location table ends inside an entry");
    return static_cast<uint8_t>(table[at++]);
  };
  Position position;
  if (code == kNone) return position;
  if (code == kLong) {
    line += read_signed_varint(table, at);
    position.end_line = line + static_cast<int>(read_varint(table, at));
    position.column = static_cast<int>(read_varint(table, at)) - 1;
    position.end_column = static_cast<int>(read_varint(table, at)) - 1;
  } else if (code == kNoColumns) {
    line += read_signed_varint(table, at);
    position.end_line = line;
  } else if (code >= kOneLine) {
    line += code - kOneLine;
    position.end_line = line;
    position.column = byte();
    position.end_column = byte();
  } else {
    const uint8_t second = byte();
    position.end_line = line;
    position.column = code << 3 | second >> 4;
    position.end_column = position.column + (second & 15);
  }
  position.line = line;
  return position;
}

std::vector<Position> parse_locations(std::string_view table, int first_line, size_t unit_count) {
  std::vector<Position> units(unit_count);
  int line = first_line;
  size_t unit = 0;
  for (size_t at = 0; at < table.size();) {
    const uint8_t head = static_cast<uint8_t>(table[at++]);
    const Position position = read_location(table, at, head >> 3 & 15, line);
    const size_t end = std::min(unit + (head & 7) + 1, unit_count);
    for (; unit < end; ++unit) units[unit] = position;
  }
  return units;
}

void write_location(std::string& table, const Position& position, size_t units, int& line) {
  auto head = [&](int code) { table.push_back(static_cast<char>(0x80 | code << 3 | (units - 1))); };
  if (position.line < 0) return head(kNone);
  const int change = position.line - line;
  const int column = position.column;
  const int end_column = position.end_column;
  line = position.line;
  const bool one_line = position.end_line == position.line;
  if (column < 0 && end_column < 0 && (one_line || position.end_line < 0)) {
    head(kNoColumns);
    return write_signed_varint(table, change);
  }
  if (one_line && column >= 0 && end_column >= 0) {
    if (change == 0 && column < 80 && end_column >= column && end_column - column < 16) {
      head(kShortest + (column >> 3));
      return table.push_back(static_cast<char>((column & 7) << 4 | (end_column - column)));
    }
    if (change >= 0 && change < 3 && column < 128 && end_column < 128) {
      head(kOneLine + change);
      table.push_back(static_cast<char>(column));
      return table.push_back(static_cast<char>(end_column));
    }
  }
  head(kLong);
  write_signed_varint(table, change);
  write_varint(table, static_cast<uint32_t>(std::max(position.end_line - position.line, 0)));
  write_varint(table, static_cast<uint32_t>(column + 1));
  write_varint(table, static_cast<uint32_t>(end_column + 1));
}

std::string write_locations(const std::vector<Position>& units, int first_line) {
  std::string table;
  int line = first_line;
  for (size_t start = 0; start < units.size();) {
    size_t end = start + 1;
    while (end < units.size() && end - start < kMaxEntryUnits && units[end] == units[start]) ++end;
    write_location(table, units[start], end - start, line);
    start = end;
  }
  return table;
}

}  // namespace

std::vector<Position> parse_line_table(LineFormat format, std::string_view table, int first_line, size_t units) {
  switch (format) {
    case LineFormat::kLnotab:
      return parse_lnotab(table, first_line, units);
    case LineFormat::kLineTable:
      return parse_ranges(table, first_line, units);
    case LineFormat::kLocations:
      return parse_locations(table, first_line, units);
  }
  FJ_CHECK(false, "unknown line table format");
  return {};
}

std::string write_line_table(LineFormat format, const std::vector<Position>& units, int first_line) {
  switch (format) {
    case LineFormat::kLnotab:
      return write_lnotab(units, first_line);
    case LineFormat::kLineTable:
      return write_ranges(units, first_line);
    case LineFormat::kLocations:
      return write_locations(units, first_line);
  }
  FJ_CHECK(false, "unknown line table format");
  return {};
}

}  // namespace framejit::bytecode
