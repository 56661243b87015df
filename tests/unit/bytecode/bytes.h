// Code of any version, written by opcode name.
#pragma once

#include <string>

#include "base/check.h"
#include "bytecode/decoder.h"
#include "bytecode/opcode_table.h"

namespace framejit::bytecode {

class Bytes {
 public:
  explicit Bytes(Version version) : version_(version) {}
  Bytes& op(const char* name, int arg = 0) {
    const int opcode = find_opcode(version_, name);
    FJ_CHECK(opcode >= 0, "no {}", name);
    text_.push_back(static_cast<char>(opcode));
    text_.push_back(static_cast<char>(arg));
    for (int i = 0; i < opcode_table(version_)[opcode].caches; ++i) text_.append(2, '\0');
    return *this;
  }
  const std::string& text() const { return text_; }

  // `locals` plain locals and `cells` cells after them.
  Decoded decode(int locals = 4, int cells = 0, const std::string& exceptions = "",
                 const std::string& lines = "") const {
    RawCode raw;
    raw.version = version_;
    raw.code = text_;
    raw.exception_table = exceptions;
    raw.line_table = lines;
    raw.local_count = locals;
    raw.cell_count = cells;
    for (int i = 0; i < locals + cells; ++i) {
      LocalSlot slot;
      slot.is_local = i < locals;
      slot.is_cell = i >= locals;
      raw.slots.push_back(slot);
    }
    Decoded decoded;
    decode_bytes(raw, decoded);
    return decoded;
  }

 private:
  Version version_;
  std::string text_;
};

}  // namespace framejit::bytecode
