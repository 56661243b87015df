#include "tracer/protocols.h"

#include "base/once.h"

namespace framejit {
namespace {

struct TypingModule {
  Ref abc_instance_check;  // abc.ABCMeta.__instancecheck__: protocols ask whether it is abc that calls them
  Ref members_of;          // typing._get_protocol_attrs: of a protocol, a set of names
};

Ref attribute_of_module(const char* module, const char* name) {
  Ref imported = Ref::steal(PyImport_ImportModule(module));
  return imported ? Ref::steal(PyObject_GetAttrString(imported.get(), name)) : Ref();
}

const TypingModule& typing_module() {
  return once_under_lock([] {
    Ref meta = attribute_of_module("abc", "ABCMeta");
    TypingModule made;
    if (meta) made.abc_instance_check = Ref::steal(PyObject_GetAttrString(meta.get(), "__instancecheck__"));
    made.members_of = attribute_of_module("typing", "_get_protocol_attrs");
    PyErr_Clear();
    return made;
  });
}

// What `found` on a class says without running code of the program.
bool is_plain_member(PyObject* found) {
  return PyFunction_Check(found) || PyCFunction_Check(found) || Py_TYPE(found) == &PyMethodDescr_Type ||
         Py_TYPE(found) == &PyWrapperDescr_Type || Py_TYPE(found) == &PyClassMethod_Type ||
         Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyMemberDescr_Type ||
         Py_TYPE(found) == &PyGetSetDescr_Type || PyType_Check(found) || is_plain_data(found);
}

// Whether a member of the class is called or only looked up to see that it is there depends on the version.
bool has_member(Simulator& sim, SymValue& subject, PyObject* name, bool is_method) {
  PyTypeObject* type = Py_TYPE(sim.realise(subject));
  PyObject* found = sim.lookup_type(type, name);
  if (found && !is_plain_member(found))
    sim.stop(StopReason::kUnknownCall, fmt::format("a protocol's member that is a '{}'", Py_TYPE(found)->tp_name));
  for (const char* hook : {"__getattr__", "__getattribute__"})
    if (PyObject* own = sim.lookup_type(type, interned(hook)); own && PyFunction_Check(own))
      sim.stop(StopReason::kUnknownCall, fmt::format("a protocol's member of a class with {}", hook));
  auto value = sim.find_attr(subject, name);
  return value && !(is_method && sim.realise(*value) == Py_None);
}

}  // namespace

bool is_runtime_protocol(PyObject* type) {
  if (!PyType_Check(type)) return false;
  for (const char* mark : {"_is_protocol", "_is_runtime_protocol"})
    if (_PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), interned(mark)) != Py_True) return false;
  return true;
}

bool is_instance_of_protocol(Simulator& sim, SymValue subject, PyObject* type) {
  const TypingModule& typing = typing_module();
  if (!typing.abc_instance_check || !typing.members_of)
    sim.stop(StopReason::kUnknownCall, "a protocol of an unknown typing module");
  CallArgs args{{SymValue::borrow(type), subject}, {}};
  if (sim.call_c(typing.abc_instance_check.get(), args).get() == Py_True) return true;
  Ref members = sim.check(PyObject_CallFunctionObjArgs(typing.members_of.get(), type, nullptr));
  Ref names = sim.check(PySequence_Tuple(members.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    PyObject* declared = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name);
    if (!has_member(sim, subject, name, declared && PyCallable_Check(declared))) return false;
  }
  return true;
}

}  // namespace framejit
