// FJ_CHECK guards invariants in every build, FJ_DCHECK in debug builds. A failure throws InternalError: the runtime
// turns it into an eager run and one report, or raises it under FRAMEJIT_STRICT=1.
#pragma once

#include <stdexcept>
#include <string>

#include "base/format.h"

namespace framejit {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace framejit

#define FJ_CHECK(cond, ...)                                                             \
  do {                                                                                  \
    if (__builtin_expect(!(cond), 0))                                                   \
      ::framejit::fail_check(__FILE__, __LINE__, #cond, ::fmt::format("" __VA_ARGS__)); \
  } while (0)

#ifdef NDEBUG
#define FJ_DCHECK(cond, ...) \
  do {                       \
  } while (0)
#else
#define FJ_DCHECK(cond, ...) FJ_CHECK(cond, __VA_ARGS__)
#endif
