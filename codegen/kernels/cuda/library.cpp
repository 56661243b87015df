#include "codegen/kernels/cuda/library.h"

#include <dlfcn.h>

namespace framejit::codegen {

void* load_library(std::span<const std::string> names, std::string* why_not) {
  for (const std::string& name : names)
    if (void* loaded = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD)) return loaded;
  for (const std::string& name : names) {
    if (void* loaded = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) return loaded;
    if (!why_not->empty()) continue;
    const char* error = dlerror();
    *why_not = error ? error : "cannot load " + name;
  }
  return nullptr;
}

bool find_functions(void* library, std::span<const LibraryFunction> functions, std::string* why_not) {
  for (const LibraryFunction& function : functions) {
    *function.place = dlsym(library, function.name);
    if (*function.place) continue;
    *why_not = std::string("it has no ") + function.name;
    return false;
  }
  return true;
}

}  // namespace framejit::codegen
