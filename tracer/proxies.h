// Real Python objects through which C code re-enters the simulation: a generator under simulation is an iterator, a
// function handed to `sorted` or `map` is a callable. So the builtins that consume them are simply called.
#pragma once

#include <memory>

#include "tracer/simulator.h"

namespace framejit {

// Where a handler that only tidies up raises again: the end of `except E as name`, the region round a whole body that
// turns StopIteration into RuntimeError (PEP 479), and that of a `yield from`, which raises what its generator raised.
// Invalid for others.
InstrIndex end_of_tidy_handler(const bytecode::Decoded& code, InstrIndex handler);
// Whether some handler may run code that the program wrote there: not only such as tidy up after a comprehension.
bool handles_exceptions(const bytecode::Decoded& code);

// An iterator over the yields of a simulated generator frame. It dies with the simulator.
Ref make_sim_generator(Simulator& sim, std::unique_ptr<SimFrame> frame);
bool is_sim_generator(PyObject* obj);
// Null if the object is none.
SimFrame* sim_generator_frame(PyObject* obj);
// Raises the StopIteration of a generator that has ended.
void set_stop_iteration(Simulator& sim, SimFrame& generator);
// Where the generator was made: a break before that point needs no generator to be rebuilt.
BreakPoint sim_generator_origin(PyObject* obj);

// Stands for the traceback of an exception that the trace raised: it can be handed around, and not be looked into.
Ref make_sim_traceback(Simulator& sim, BreakPoint raised_at);
bool is_sim_traceback(PyObject* obj);
// A break before that point has the real one.
BreakPoint sim_traceback_origin(PyObject* obj);

// The type as the program sees it: of what a proxy stands for.
PyTypeObject* type_seen(PyObject* obj);

// A callable that runs `callable` under the simulation, and tests its result for C code that would (`gives_truth`).
Ref make_sim_callable(Simulator& sim, SymValue callable, bool gives_truth = false);
bool is_sim_callable(PyObject* obj);
// What it wraps.
PyObject* sim_callable_target(PyObject* obj);

}  // namespace framejit
