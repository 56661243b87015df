// Guards and sources in words. Cold: nothing here runs unless somebody reads it.
#pragma once

#include <string>
#include <vector>

#include "bytecode/decoded_code.h"
#include "runtime/cache/compiled_entry.h"

namespace framejit::runtime {

// `code` gives locals their names; may be null.
std::string describe_source(const CompiledEntry& entry, graph::SourceId source, const bytecode::DecodedCode* code);
std::string describe_guard(const CompiledEntry& entry, size_t guard, const bytecode::DecodedCode* code);
// The guard that failed last, and what was found instead.
std::string describe_failed_guard(CompiledEntry& entry, const FrameInputs& inputs, const bytecode::DecodedCode* code);

// "file.py:12 in name"
std::string describe_place(const bytecode::DecodedCode& code, bytecode::InstrIndex at);

}  // namespace framejit::runtime
