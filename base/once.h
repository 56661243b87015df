// Values made once under the interpreter lock.
//
// A static local guards its initialisation with a lock of C++'s. Where making the value runs Python code, which gives
// the interpreter lock away, a second thread that comes by with that lock would wait for the first for ever.
#pragma once

#include <utility>

namespace framejit {

// What make() gives, kept for ever; one for each lambda. make() may run twice if two threads come at first: the later
// value is dropped.
template <class Make>
const auto& once_under_lock(Make make) {
  using Value = decltype(make());
  static Value* kept = nullptr;  // no initialiser that runs, hence no lock
  if (!kept) {
    Value made = make();
    if (!kept) kept = new Value(std::move(made));
  }
  return *kept;
}

}  // namespace framejit
