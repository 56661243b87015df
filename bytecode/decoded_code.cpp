#include "bytecode/decoded_code.h"

#include <algorithm>

#include "base/check.h"
#include "bytecode/code_object.h"

namespace framejit::bytecode {
namespace {

bool reads_globals(const Decoded& decoded) {
  return std::any_of(decoded.instructions.begin(), decoded.instructions.end(), [](const Instruction& instr) {
    return instr.op == SimOp::kLoadGlobal || instr.op == SimOp::kLoadName ||
           instr.op == SimOp::kLoadFromDictOrGlobals || instr.op == SimOp::kImportName;
  });
}

}  // namespace

DecodedCodePtr decode(BorrowedRef code) {
  FJ_CHECK(PyCode_Check(code.get()), "decode() needs a code object");
  CodeParts parts = read_code(reinterpret_cast<PyCodeObject*>(code.get()));
  auto decoded = std::make_shared<DecodedCode>();
  decode_bytes(parts.raw, *decoded);
  decoded->code = code.get();
  decoded->consts = std::move(parts.consts);
  decoded->names = std::move(parts.names);
  decoded->localsplus_names = std::move(parts.localsplus_names);
  decoded->name = std::move(parts.name);
  decoded->qualname = std::move(parts.qualname);
  decoded->filename = std::move(parts.filename);
  decoded->reads_globals = reads_globals(*decoded);
  return decoded;
}

}  // namespace framejit::bytecode
