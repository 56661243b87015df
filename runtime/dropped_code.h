// When the engine lets go of code that the program has dropped: after each full collection.
#pragma once

namespace framejit::runtime {

// Puts a function into gc.callbacks (https://docs.python.org/3/library/gc.html#gc.callbacks). False with a Python
// error.
bool listen_to_collections();

}  // namespace framejit::runtime
