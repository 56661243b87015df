// Handlers named by HANDLER rows of callables.def. Each gets the callable and its arguments, self first for methods.
#pragma once

#include "tracer/callables.h"

namespace framejit::builtins {

#define CALLABLE(path, kind)
#define BREAK(path, reason)
#define HANDLER(path, function) SymValue function(Simulator& sim, PyObject* callable, CallArgs args);
#include "tracer/callables.def"
#undef CALLABLE
#undef BREAK
#undef HANDLER

bool is_grad_enabled(Simulator& sim);
void realise_all(Simulator& sim, CallArgs& args);
// What a module has by that name; the module is imported.
Ref imported(Simulator& sim, const char* module, const char* name);
// What a constant dictionary has by that name now is what each call finds.
PyObject* rely_on_item(Simulator& sim, PyObject* dict, const char* name);

// Of a torch.autograd.Function that makes a node of autograd's graph. `apply`: of a class that the simulation runs for.
SymValue call_differentiated(Simulator& sim, PyObject* owner, PyObject* apply, CallArgs args);

}  // namespace framejit::builtins
