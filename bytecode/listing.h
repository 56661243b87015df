// Decoded code as text.
#pragma once

#include <string>

#include "bytecode/decoded_code.h"

namespace framejit::bytecode {

// One line per instruction: source line where it changes, a mark at jump targets, index, canonical operation with its
// arguments in words, the version's own opcode, static stack depth.
//    12 >>   7  Call 2 kw=('x',) NullBelow        CALL 2      depth 5
std::string listing(const DecodedCode& code);

}  // namespace framejit::bytecode
