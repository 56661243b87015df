// isinstance(), issubclass() and class patterns, in the order of Objects/abstract.c.
#include <algorithm>

#include "base/once.h"
#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/library_code.h"
#include "tracer/protocols.h"
#include "tracer/proxies.h"

namespace framejit {
namespace {

struct ClassCheck {
  const char* method;  // in Python: what the class of the type may have
  int (*in_c)(PyObject* subject, PyObject* type);
};
constexpr ClassCheck kInstanceCheck{"__instancecheck__", PyObject_IsInstance};
constexpr ClassCheck kSubclassCheck{"__subclasscheck__", PyObject_IsSubclass};

// torch.FloatTensor and the like look at the dispatch keys, which a fake has of its own: they stand for these facts.
bool is_instance_of_tensor_type(Simulator& sim, PyObject* tensor, PyObject* type) {
  for (const char* fact : {"dtype", "layout", "is_cuda"}) {
    Ref have = sim.check(PyObject_GetAttrString(tensor, fact)), want = sim.check(PyObject_GetAttrString(type, fact));
    if (have.get() != want.get()) return false;
  }
  return true;
}

enum class Asker { kNone, kAbc, kTyping, kTorch, kOther };

// Who wrote the method that the class of `type` has for the check.
Asker asker_of(Simulator& sim, PyObject* type, const char* method) {
  PyObject* hook = sim.lookup_type(Py_TYPE(type), interned(method));
  if (!hook || !PyFunction_Check(hook)) return Asker::kNone;
  const std::string_view name = module_name(PyFunction_GET_GLOBALS(hook));
  if (name.substr(0, 5) == "torch") return Asker::kTorch;
  return name == "abc" ? Asker::kAbc : name == "typing" ? Asker::kTyping : Asker::kOther;
}

bool has_parameters(PyObject* types) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i)
    if (is_kind_of_generic_alias(PyTuple_GET_ITEM(types, i))) return true;
  return false;
}

// Each of them is asked in turn; null: `type` is no collection of types. Whether a union that has types with parameters
// is refused before any of it is asked is the interpreter's to say (union_instancecheck of Objects/unionobject.c).
Ref alternatives(Simulator& sim, PyObject* type) {
  if (PyTuple_Check(type)) return Ref::borrow(type);
  if (!is_type_union(type)) return {};
  Ref types = sim.check(PyObject_GetAttrString(type, "__args__"));
  return has_parameters(types.get()) ? Ref() : std::move(types);
}

bool is_direct_base(PyTypeObject* derived, PyObject* type) {
  return PyType_Check(type) && PyType_IsSubtype(derived, reinterpret_cast<PyTypeObject*>(type));
}

bool run_check(Simulator& sim, const ClassCheck& check, PyObject* subject, PyObject* type) {
  SymValue answer = sim.without_python([&] {
    int result = check.in_c(subject, type);
    sim.check_status(result);
    return SymValue::of_bool(result);
  });
  return answer.get() == Py_True;
}

// Types may be nested as deep as the interpreter's own recursion goes.
class Deeper {
 public:
  Deeper(Simulator& sim, const ClassCheck& check) {
    if (Py_EnterRecursiveCall(&check == &kInstanceCheck ? " in __instancecheck__" : " in __subclasscheck__"))
      sim.raise();
  }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { Py_LeaveRecursiveCall(); }
};

bool passes(Simulator& sim, const ClassCheck& check, PyObject* subject, PyObject* type);

// Of what a proxy stands for: by its type, as type's own check, abc's and that of typing go.
bool is_instance_by_type(Simulator& sim, PyObject* proxy, PyObject* type, Asker asker) {
  PyTypeObject* seen = type_seen(proxy);
  if (reinterpret_cast<PyObject*>(seen) == type) return true;
  if (asker == Asker::kNone || asker == Asker::kTorch)  // C code, which knows no generators, or torch's of tensors
    return (PyType_Check(type) && PyType_IsSubtype(seen, reinterpret_cast<PyTypeObject*>(type))) ||
           run_check(sim, kInstanceCheck, proxy, type);
  if (asker == Asker::kTyping && is_runtime_protocol(type))
    sim.stop(StopReason::kUnsupportedValue, fmt::format("whether a '{}' has what a protocol names", seen->tp_name));
  return passes(sim, kSubclassCheck, reinterpret_cast<PyObject*>(seen), type);
}

bool passes(Simulator& sim, const ClassCheck& check, PyObject* subject, PyObject* type) {
  if (Ref types = alternatives(sim, type)) {
    Deeper deeper(sim, check);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types.get()); ++i)
      if (passes(sim, check, subject, PyTuple_GET_ITEM(types.get(), i))) return true;
    return false;
  }
  const bool instance = &check == &kInstanceCheck;
  PyTypeObject* asked = instance                ? Py_TYPE(subject)
                        : PyType_Check(subject) ? reinterpret_cast<PyTypeObject*>(subject)
                                                : nullptr;
  if (instance && reinterpret_cast<PyObject*>(asked) == type) return true;
  if (instance && sim.is_tensor(subject) && !strcmp(Py_TYPE(type)->tp_name, "torch.tensortype"))
    return is_instance_of_tensor_type(sim, subject, type);
  const Asker asker = asker_of(sim, type, check.method);
  if (instance && asker != Asker::kOther && type_seen(subject) != asked)
    return is_instance_by_type(sim, subject, type, asker);
  if (asker == Asker::kOther)
    if (auto answer = sim.call_special(type, check.method, {SymValue::borrow(subject)})) return sim.truth(*answer);
  // Before the question: a class that another thread registers meanwhile must not go unseen.
  const bool registers = asker == Asker::kAbc || asker == Asker::kTyping;
  if (registers && !(asked && is_direct_base(asked, type))) sim.rely_on_registrations();
  const bool by_members = instance && asker == Asker::kTyping && is_runtime_protocol(type);
  const bool result =
      by_members ? is_instance_of_protocol(sim, SymValue::borrow(subject), type) : run_check(sim, check, subject, type);
  if (asked) sim.guard_bases(asked);
  return result;
}

}  // namespace

// Registering any class with any ABC moves the token (Modules/_abc.c). An ABC answers from its cache until then.
void Simulator::rely_on_registrations() {
  const Ref& token = once_under_lock([] {
    Ref module = Ref::steal(PyImport_ImportModule("_abc"));
    return module ? Ref::steal(PyObject_GetAttrString(module.get(), "get_cache_token")) : Ref();
  });
  if (!token) stop(StopReason::kUnknownCall, "an interpreter without _abc.get_cache_token");
  rely_on_answer(token.get());
}

Ref Simulator::rely_on_answer(PyObject* question) {
  if (is_in_backward()) refuse_in_body("it asks for '" + qualified_name(question) + "'");
  Ref answer = check(PyObject_CallObject(question, nullptr));
  if (!is_plain_data(answer.get()) && !is_identity_constant(answer.get()))
    stop(StopReason::kUnknownCall, qualified_name(question));
  world_.rely_on_answer(question, answer.get());
  return answer;
}

bool Simulator::is_instance(PyObject* obj, PyObject* type) { return passes(*this, kInstanceCheck, obj, type); }

namespace builtins {

namespace {

std::pair<PyObject*, PyObject*> two_objects(Simulator& sim, CallArgs& args, const char* name) {
  if (args.has_keywords() || args.count() != 2)
    sim.stop(StopReason::kUnknownCall, fmt::format("{} with {} arguments", name, args.count()));
  return {sim.realise(args.positional[0]), sim.realise(args.positional[1])};
}

// Whether no code of the program is asked: a class with type's own check, torch.Tensor, or a tuple of such.
bool looks_at_type_alone(PyObject* cls) {
  if (PyTuple_CheckExact(cls)) {
    PyObject** items = PySequence_Fast_ITEMS(cls);
    return std::all_of(items, items + PyTuple_GET_SIZE(cls), looks_at_type_alone);
  }
  return Py_TYPE(cls) == &PyType_Type || cls == library().tensor_type;
}

}  // namespace

SymValue call_isinstance(Simulator& sim, PyObject*, CallArgs args) {
  if (args.count() == 2 && sim.is_number(args.positional[0]) && looks_at_type_alone(sim.realise(args.positional[1])))
    args.positional[0] = SymValue(sim.check(PyFloat_FromDouble(0)));
  auto [obj, type] = two_objects(sim, args, "isinstance");
  return SymValue::of_bool(passes(sim, kInstanceCheck, obj, type));
}

SymValue call_issubclass(Simulator& sim, PyObject*, CallArgs args) {
  auto [subclass, type] = two_objects(sim, args, "issubclass");
  return SymValue::of_bool(passes(sim, kSubclassCheck, subclass, type));
}

// _abc._abc_instancecheck and _abc._abc_subclasscheck, which a metaclass reaches by super().
SymValue call_abc_check(Simulator& sim, PyObject* callable, CallArgs args) {
  sim.rely_on_registrations();
  SymValue answer = sim.call_c(callable, args);
  PyObject* asked = args.count() == 2 ? args.positional[1].get() : Py_None;
  sim.guard_bases(PyType_Check(asked) ? reinterpret_cast<PyTypeObject*>(asked) : Py_TYPE(asked));
  return answer;
}

// A C function without arguments that answers by a constant: each call asks again.
SymValue call_question(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() || args.has_keywords()) sim.stop(StopReason::kUnknownCall, "a question with arguments");
  return SymValue(sim.rely_on_answer(callable));
}

}  // namespace builtins
}  // namespace framejit
