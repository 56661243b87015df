// torch.cond and while_loop (torch/_higher_order_ops): both bodies are run in the trace, and recorded as graphs.
#include "tracer/builtins.h"

namespace framejit::builtins {

namespace {

// The arguments by the names of the function's parameters. Empty where they do not fit: the function itself says so.
std::vector<SymValue> bound(const CallArgs& args, std::initializer_list<const char*> names) {
  std::vector<SymValue> values(names.size());
  if (args.positional.size() > names.size()) return {};
  std::copy(args.positional.begin(), args.positional.end(), values.begin());
  for (const auto& [keyword, value] : args.keywords) {
    size_t i = 0;
    for (const char* name : names) {
      if (PyUnicode_CompareWithASCIIString(keyword.get(), name) == 0) break;
      ++i;
    }
    if (i == names.size() || !values[i].null()) return {};
    values[i] = value;
  }
  return values;
}

// Tensors of a level of torch.func stand for no value.
bool is_of_graph(Simulator& sim, PyObject* obj) {
  return sim.is_tensor(obj) && !sim.services().host.is_level_tensor(obj);
}

// The tensors of a tuple or list of such.
std::vector<SymValue> tensors_of(Simulator& sim, SymValue value, const char* what) {
  PyObject* obj = sim.realise(value);
  if (!PyTuple_Check(obj) && !PyList_Check(obj)) sim.refuse_in_body(std::string(what) + " are no tuple or list");
  std::vector<SymValue> items = sim.collect(value);
  for (SymValue& item : items)
    if (!is_of_graph(sim, sim.realise(item))) sim.refuse_in_body(std::string(what) + " are no tensors of the graph");
  return items;
}

std::vector<PyObject*> objects_of(const std::vector<SymValue>& values) {
  std::vector<PyObject*> objects;
  objects.reserve(values.size());
  for (const SymValue& value : values) objects.push_back(value.get());
  return objects;
}

struct BodyResult {
  std::vector<SymValue> tensors;
  PyTypeObject* container = nullptr;  // null: the tensor itself
};

BodyResult run_body(Simulator& sim, const SymValue& function, const std::vector<SymValue>& arguments) {
  CallArgs args;
  args.positional = arguments;
  SymValue result;
  try {
    result = sim.in_body([&] { return sim.call(function, std::move(args)); });
  } catch (const PythonRaised&) {
    PyErr_Clear();
    sim.refuse_in_body("an exception is raised");
  }
  PyObject* obj = sim.realise(result);
  if (is_of_graph(sim, obj)) return {{result}, nullptr};
  if (!PyTuple_CheckExact(obj) && !PyList_CheckExact(obj))
    sim.refuse_in_body("the result is no tensor or tuple of tensors");
  return {tensors_of(sim, result, "the results"), Py_TYPE(obj)};
}

void end_body(Simulator& sim, const BodyResult& result) {
  std::string why_not;
  if (sim.services().host.end_body(objects_of(result.tensors), &why_not)) return;
  if (PyErr_Occurred()) sim.raise();
  sim.refuse_in_body(why_not);
}

SymValue packed(Simulator& sim, const std::vector<Ref>& results, PyTypeObject* container) {
  if (!container) return SymValue(results.at(0));
  Ref list = sim.check(PyList_New(0));
  for (const Ref& result : results) sim.check_status(PyList_Append(list.get(), result.get()));
  return container == &PyList_Type ? SymValue(std::move(list)) : SymValue(sim.check(PyList_AsTuple(list.get())));
}

void require_recorded(Simulator& sim, const std::vector<Ref>& results, const std::string& why_not) {
  if (!results.empty()) return;
  if (PyErr_Occurred()) sim.raise();
  sim.refuse_in_body(why_not.empty() ? "there are no results" : why_not);
}

// Eager torch.cond asks for one element of type bool, and complains of others.
void require_predicate(Simulator& sim, PyObject* predicate) {
  Ref dtype = sim.check(PyObject_GetAttrString(predicate, "dtype"));
  Ref text = sim.check(PyObject_Str(dtype.get()));
  Ref count = sim.check(PyObject_CallMethod(predicate, "numel", nullptr));
  if (PyUnicode_CompareWithASCIIString(text.get(), "torch.bool") != 0 || PyLong_AsLong(count.get()) != 1)
    sim.refuse_in_body("the predicate is not one element of type bool");
}

// Older releases give the carried tensors themselves where the loop runs no times.
bool gives_copies(PyObject* while_loop) {
  PyObject* dense = PyDict_GetItemString(PyFunction_GET_GLOBALS(while_loop), "while_loop_dense");
  if (!dense || !PyFunction_Check(dense)) return false;
  Ref constants = Ref::steal(PyObject_GetAttrString(PyFunction_GET_CODE(dense), "co_consts"));
  auto names_clone = [](PyObject* code) {
    Ref names = Ref::steal(PyObject_GetAttrString(code, "co_names"));
    return names && PySequence_Contains(names.get(), interned("clone")) == 1;
  };
  bool found = names_clone(PyFunction_GET_CODE(dense));
  for (Py_ssize_t i = 0; constants && i < PyTuple_GET_SIZE(constants.get()); ++i)
    if (PyObject* code = PyTuple_GET_ITEM(constants.get(), i); PyCode_Check(code)) found = found || names_clone(code);
  PyErr_Clear();
  return found;
}

}  // namespace

SymValue call_cond(Simulator& sim, PyObject* callable, CallArgs args) {
  std::vector<SymValue> given = bound(args, {"pred", "true_fn", "false_fn", "operands"});
  if (given.empty() || given[0].null() || given[1].null() || given[2].null())
    sim.stop(StopReason::kControlFlow, qualified_name(callable));
  const std::vector<SymValue> operands =
      given[3].null() ? std::vector<SymValue>() : tensors_of(sim, given[3], "the operands");
  PyObject* predicate = sim.realise(given[0]);
  if (PyBool_Check(predicate)) {
    CallArgs chosen;
    chosen.positional = operands;
    return sim.call(given[predicate == Py_True ? 1 : 2], std::move(chosen));
  }
  if (!is_of_graph(sim, predicate)) sim.stop(StopReason::kControlFlow, qualified_name(callable));
  require_predicate(sim, predicate);
  BodyResult results[2];
  for (size_t i = 0; i < 2; ++i) {
    sim.services().host.begin_body({});
    results[i] = run_body(sim, given[i + 1], operands);
    end_body(sim, results[i]);
  }
  if (results[0].container != results[1].container)
    sim.refuse_in_body("the results are of other types than in the other");
  sim.mark_location();
  std::string why_not;
  const std::vector<Ref> made = sim.services().host.record_cond(predicate, &why_not);
  require_recorded(sim, made, why_not);
  return packed(sim, made, results[0].container);
}

SymValue call_while_loop(Simulator& sim, PyObject* callable, CallArgs args) {
  std::vector<SymValue> given = bound(args, {"cond_fn", "body_fn", "carried_inputs"});
  if (given.empty() || given[0].null() || given[1].null() || given[2].null() || !gives_copies(callable))
    sim.stop(StopReason::kControlFlow, qualified_name(callable));
  const std::vector<SymValue> carried = tensors_of(sim, given[2], "the carried values");
  for (size_t i = 0; i < 2; ++i) {
    std::vector<SymValue> parameters;
    for (Ref& fake : sim.services().host.begin_body(objects_of(carried))) parameters.emplace_back(std::move(fake));
    if (parameters.size() != carried.size()) sim.raise();
    const BodyResult result = run_body(sim, given[i], parameters);
    if (i == 1 && result.container != &PyTuple_Type) sim.refuse_in_body("the result is no tuple");
    if (i == 0 && !result.container) require_predicate(sim, result.tensors[0].get());
    end_body(sim, result);
  }
  sim.mark_location();
  std::string why_not;
  const std::vector<Ref> made = sim.services().host.record_while_loop(objects_of(carried), &why_not);
  require_recorded(sim, made, why_not);
  return packed(sim, made, &PyTuple_Type);
}

}  // namespace framejit::builtins
