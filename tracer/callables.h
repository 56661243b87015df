// The table of callables that the simulator knows: how a call of each is treated.
#pragma once

#include <string>

#include "tracer/simulator.h"

namespace framejit {

enum class CallableKind : uint8_t {
  kPure,     // called with its real arguments, which must be plain
  kStore,    // called; arguments are kept or compared by identity, never looked into
  kKeyed,    // a method of a container: as kStore, but its first argument is a key, which must be plain
  kIterate,  // called; arguments that iterate by Python code are iterated in the simulation first
  kConsume,  // as kIterate, but its first argument is a function, which is run in the simulation
  kRecord,   // a tensor function: runs on fakes
  kState,    // sets global state: called, undone when the capture ends, replayed as an effect
  kBreak,    // ends the graph
  kHandler,  // a function of builtins.cpp
};

using CallableHandler = SymValue (*)(Simulator& sim, PyObject* callable, CallArgs args);

struct CallableRow {
  const char* path;
  CallableKind kind;
  StopReason reason;
  CallableHandler handler;
};

// Resolves the rows of the table whose modules are imported by now; called before each capture, cheap when nothing is
// new.
void initialise_callables();
// Null if the table does not have it. `key`: a function, type or the descriptor of a method.
const CallableRow* find_callable(PyObject* key);
std::string qualified_name(PyObject* callable);
// The descriptor of a bound method written in C that the class of its object overrides; else null. Borrowed.
PyObject* overridden_method(PyObject* bound);

}  // namespace framejit
