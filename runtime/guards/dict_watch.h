// Dictionaries that are watched for those who relied on their contents. One watcher slot serves the process.
//
// A flag is raised by the first change of any dictionary that it was put on, and is then on none: who relied on it
// looks anew, and may put a new flag on the same dictionaries. So a dictionary that changes often costs one look-up for
// each change, and nothing once nobody asks for it any more.
#pragma once

#include <cstdint>

#include "base/py_ref.h"

namespace framejit::runtime {

// Shared by who made it and by the rows of the dictionaries that it is on.
class WatchFlag {
 public:
  WatchFlag() : state_(new State) {}
  ~WatchFlag() { drop(state_); }
  WatchFlag(const WatchFlag&) = delete;
  WatchFlag& operator=(const WatchFlag&) = delete;

  bool raised() const { return state_->raised_by != nullptr; }
  // The address of the dictionary that raised it, which may be gone.
  const PyObject* raised_by() const { return state_->raised_by; }
  // Takes it down, on no dictionary.
  void renew() {
    drop(state_);
    state_ = new State;
  }

  // False: the dictionary cannot be watched, ask its version. Needs the interpreter lock.
  bool put_on(PyObject* dict);

  struct State {
    uint32_t holders = 1;
    const PyObject* raised_by = nullptr;
    bool owned = true;  // somebody would look at it
  };

 private:
  static void drop(State* state);
  State* state_;
};

}  // namespace framejit::runtime
