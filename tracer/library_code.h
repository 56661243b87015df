// What is taken of the Python code of torch and the standard library without simulating it.
#pragma once

#include <string_view>

#include "tracer/simulator.h"

namespace framejit {

// The name of the module whose globals these are; empty: they have none.
std::string_view module_name(PyObject* globals);
// The globals of a module of torch or of the standard library: its functions are made once.
bool is_library_namespace(PyObject* globals);
// A function, or a descriptor around one, of the modules that make enumerations: it looks members up, and changes
// nothing.
bool is_code_of_enums(PyObject* function);
// Whether a dictionary that has this class or enumeration member for a key calls a method of the program.
bool hashes_in_python(PyObject* constant);
// Whether a dictionary compares it with others without calling code of the program.
bool is_constant_key(PyObject* obj);
// torch functions in Python that only compute from their arguments: called on fakes instead of simulated.
bool is_direct_function(Simulator& sim, PyObject* function, const CallArgs& args);
// Guards what such a function reads by its names: its code, its defaults, globals, what those modules hold, and the
// same of the functions that it calls among those. Names that only share their text with one are guarded as well.
void rely_on_direct_function(World& world, PyObject* function);

}  // namespace framejit
