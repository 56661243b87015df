// A shared library that is there or is not, and functions out of it.
#pragma once

#include <span>
#include <string>

namespace framejit::codegen {

struct LibraryFunction {
  const char* name;
  void** place;
};

// The first of `names` that loads: an absolute path, or a name that the process has loaded or the system finds. Null
// with a reason. It stays loaded.
void* load_library(std::span<const std::string> names, std::string* why_not);

// Fills each function's place. False with a reason: one is missing.
bool find_functions(void* library, std::span<const LibraryFunction> functions, std::string* why_not);

}  // namespace framejit::codegen
