// Which code looks at the frame that runs it.
#pragma once

#include "bytecode/decoded_code.h"

namespace framejit {

// Locals that nothing reads any more are seen too. super() without arguments looks at the first local.
bool sees_locals(const bytecode::DecodedCode& code);
// It may keep its frame object, which is a view of the frame that goes on: all of the rest has to run in that frame.
bool asks_for_frame(const bytecode::DecodedCode& code);

}  // namespace framejit
