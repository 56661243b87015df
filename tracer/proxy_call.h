// What the types of objects through which C code re-enters the simulation have in common.
#pragma once

#include "base/check.h"
#include "tracer/simulator.h"

namespace framejit {

// Simulator::adopt_proxy: without a simulator when the capture has ended.
struct SimProxy {
  PyObject ob_base;
  Simulator* sim;
};

// Runs `body` on behalf of C code: a stop is parked in the simulator and becomes a Python error until Simulator::raise
// finds it; a simulated exception is a Python error already.
struct ProxyCall {
  template <class Body>
  static PyObject* run(Simulator* sim, Body body) {
    if (!sim) {
      PyErr_SetString(PyExc_RuntimeError, "an object of a capture was used after the capture ended");
      return nullptr;
    }
    try {
      return body();
    } catch (StopTrace& stopped) {
      sim->crossing_ = std::move(stopped);
      // BaseException itself: `except Exception` in library code must not swallow it.
      PyErr_SetString(PyExc_BaseException, "framejit: the capture ends");
      return nullptr;
    } catch (const PythonRaised&) {
      ++sim->raised_for_c_;
      return nullptr;
    }
  }
  static PyObject* realised(Simulator& sim, SymValue value) {
    sim.realise(value);
    return value.obj.release();
  }
};

// The name is that of the type it stands for: errors of C code say it.
inline PyTypeObject proxy_type(const char* name, size_t size, destructor dealloc) {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = name;
  type.tp_basicsize = static_cast<Py_ssize_t>(size);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_dealloc = dealloc;
  return type;
}

inline PyTypeObject* ready(PyTypeObject& type) {
  FJ_CHECK(PyType_Ready(&type) == 0, "the type {} could not be made", type.tp_name);
  return &type;
}

}  // namespace framejit
