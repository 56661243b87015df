// What a graph cannot hold, and the trace cannot follow, it can still hand on.
#include "tracer/set_aside.h"

#include <algorithm>

#include "base/once.h"
#include "tracer/proxy_call.h"
#include "tracer/signals.h"
#include "tracer/world.h"

namespace framejit {
namespace {

PyTypeObject* stand_in_type();

// C code looks at one of these.
PyObject* looked_at(std::initializer_list<PyObject*> arguments) {
  auto is_stand_in = [](PyObject* obj) { return obj && Py_TYPE(obj) == stand_in_type(); };
  PyObject* stand_in = *std::find_if(arguments.begin(), arguments.end(), is_stand_in);
  return ProxyCall::run(reinterpret_cast<SimProxy*>(stand_in)->sim, [&]() -> PyObject* {
    reinterpret_cast<SimProxy*>(stand_in)->sim->world().require_followed(stand_in);
    return nullptr;  // not reached
  });
}

PyObject* unary(PyObject* self) { return looked_at({self}); }
PyObject* binary(PyObject* left, PyObject* right) { return looked_at({left, right}); }
PyObject* ternary(PyObject* first, PyObject* second, PyObject* third) { return looked_at({first, second, third}); }
PyObject* compare(PyObject* left, PyObject* right, int) { return looked_at({left, right}); }
PyObject* call(PyObject* self, PyObject*, PyObject*) { return looked_at({self}); }
PyObject* at_index(PyObject* self, Py_ssize_t) { return looked_at({self}); }
int test(PyObject* self) { return looked_at({self}), -1; }
int test_other(PyObject* self, PyObject*) { return looked_at({self}), -1; }
int set(PyObject* self, PyObject*, PyObject*) { return looked_at({self}), -1; }
Py_ssize_t length(PyObject* self) { return looked_at({self}), -1; }
Py_hash_t hash(PyObject* self) { return looked_at({self}), -1; }
int buffer(PyObject* self, Py_buffer* view, int) { return view->obj = nullptr, looked_at({self}), -1; }

PyNumberMethods number_slots() {
  PyNumberMethods slots = {};
  for (binaryfunc PyNumberMethods::*slot :
       {&PyNumberMethods::nb_add, &PyNumberMethods::nb_subtract, &PyNumberMethods::nb_multiply,
        &PyNumberMethods::nb_remainder, &PyNumberMethods::nb_divmod, &PyNumberMethods::nb_lshift,
        &PyNumberMethods::nb_rshift, &PyNumberMethods::nb_and, &PyNumberMethods::nb_xor, &PyNumberMethods::nb_or,
        &PyNumberMethods::nb_floor_divide, &PyNumberMethods::nb_true_divide, &PyNumberMethods::nb_matrix_multiply})
    slots.*slot = binary;
  for (unaryfunc PyNumberMethods::*slot :
       {&PyNumberMethods::nb_negative, &PyNumberMethods::nb_positive, &PyNumberMethods::nb_absolute,
        &PyNumberMethods::nb_invert, &PyNumberMethods::nb_int, &PyNumberMethods::nb_float, &PyNumberMethods::nb_index})
    slots.*slot = unary;
  slots.nb_power = ternary;
  slots.nb_bool = test;
  return slots;
}

// Of a type of its own, so that nothing takes it for what it stands for, and with all slots, so that C code that looks
// at it, in whatever it is handed, ends the capture.
PyTypeObject make_stand_in_type() {
  static PyNumberMethods numbers = number_slots();
  static PyMappingMethods mapping = {length, binary, set};
  static PySequenceMethods sequence = {};
  static PyBufferProcs buffers = {buffer, nullptr};
  sequence.sq_length = length;
  sequence.sq_item = at_index;
  sequence.sq_contains = test_other;
  PyTypeObject type =
      proxy_type("framejit.set_aside", sizeof(SimProxy), [](PyObject* self) { Py_TYPE(self)->tp_free(self); });
  type.tp_as_number = &numbers;
  type.tp_as_mapping = &mapping;
  type.tp_as_sequence = &sequence;
  type.tp_as_buffer = &buffers;
  type.tp_getattro = binary;
  type.tp_setattro = set;
  type.tp_repr = type.tp_str = type.tp_iter = unary;
  type.tp_hash = hash;
  type.tp_richcompare = compare;
  type.tp_call = call;
  return type;
}

PyTypeObject* stand_in_type() {
  static PyTypeObject type = make_stand_in_type();
  return once_under_lock([] { return ready(type); });
}

}  // namespace

Ref make_stand_in(Simulator& sim) {
  auto* self = PyObject_New(SimProxy, stand_in_type());
  FJ_CHECK(self, "out of memory");
  self->sim = &sim;
  sim.adopt_proxy(reinterpret_cast<PyObject*>(self));
  return Ref::steal(reinterpret_cast<PyObject*>(self));
}

SymValue World::set_aside(PyObject* real, graph::SourceId source, TraceStop why) {
  Ref stand_in = make_stand_in_();
  guard(graph::GuardKind::kTypeIs, source, reinterpret_cast<PyObject*>(Py_TYPE(real)));
  aside_[stand_in.get()] = {real, source, std::move(why)};
  kept_.push_back(stand_in);
  return SymValue(std::move(stand_in), source);
}

void World::require_followed(PyObject* obj) const {
  if (is_aside(obj)) throw StopTrace{aside_.at(obj).why, {}};
}

}  // namespace framejit
