// Captures every Python frame of the process, with or without a tensor in it: the simulator and regenerated code in the
// place of the interpreter, for tests of both. Needs no tensor library.
#pragma once

namespace framejit::runtime {

// For good, in all threads. In a process without a tensor library tensors are objects like others. False with a Python
// error.
bool capture_everything();

}  // namespace framejit::runtime
