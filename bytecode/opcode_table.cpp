#include "bytecode/opcode_table.h"

#include <algorithm>

#include "base/check.h"

namespace framejit::bytecode {
namespace {

constexpr OpcodeInfo row(const char* name, int caches, ArgKind kind, SimOp op, int arg, int aux) {
  return OpcodeInfo{name, op, kind, static_cast<uint8_t>(caches), static_cast<uint8_t>(aux), static_cast<int16_t>(arg)};
}

#define OP(name, number, caches, kind, op, arg, aux) \
  table[number] = row(#name, caches, ArgKind::k##kind, SimOp::k##op, arg, aux);

constexpr OpcodeTable py38_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py38.def"
  return table;
}
constexpr OpcodeTable py39_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py39.def"
  return table;
}
constexpr OpcodeTable py310_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py310.def"
  return table;
}
constexpr OpcodeTable py311_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py311.def"
  return table;
}
constexpr OpcodeTable py312_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py312.def"
  return table;
}
constexpr OpcodeTable py313_table() {
  OpcodeTable table{};
#include "bytecode/opcodes/py313.def"
  return table;
}
#undef OP

constexpr std::array<OpcodeTable, kVersionCount> kTables = {py38_table(),  py39_table(),  py310_table(),
                                                            py311_table(), py312_table(), py313_table()};
static_assert(kTables[int(Version::kPy313)][149].op == SimOp::kResume, "tables are in the order of Version");

struct NamedOpcode {
  std::string_view name;
  int opcode = 0;
  friend constexpr bool operator<(const NamedOpcode& a, const NamedOpcode& b) { return a.name < b.name; }
};

// The opcodes of a table by name, sorted when this is compiled: each instruction that is written looks up its own.
struct NameIndex {
  std::array<NamedOpcode, 256> rows;
  size_t size = 0;
};

constexpr NameIndex index_by_name(const OpcodeTable& table) {
  NameIndex index;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name) index.rows[index.size++] = {table[i].name, static_cast<int>(i)};
  std::sort(index.rows.begin(), index.rows.begin() + index.size);
  return index;
}

constexpr auto kNames = [] {
  std::array<NameIndex, kVersionCount> names;
  for (size_t i = 0; i < kVersionCount; ++i) names[i] = index_by_name(kTables[i]);
  return names;
}();

}  // namespace

const OpcodeTable& opcode_table(Version version) { return kTables[static_cast<size_t>(version)]; }

int find_opcode(Version version, std::string_view name) {
  const NameIndex& index = kNames[static_cast<size_t>(version)];
  const auto* found = std::lower_bound(index.rows.data(), index.rows.data() + index.size, NamedOpcode{name, 0});
  return found != index.rows.data() + index.size && found->name == name ? found->opcode : -1;
}

}  // namespace framejit::bytecode
