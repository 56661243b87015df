#include "runtime/torch/function_replay.h"

#include <torch/csrc/Exceptions.h>

#include "runtime/torch/gil.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::ValueId;

namespace {

// What the forward of one call needs, as long as that runs.
struct Replay {
  const FunctionRecord& record;
  const Plan& plan;
  at::Tensor* registers;
  const std::function<void()>& forward;

  Ref object_of(ValueId value) const {
    return value.valid() ? Ref::steal(wrap_tensor(registers[plan.register_of(value)])) : Ref::borrow(Py_None);
  }
};

thread_local Replay* current = nullptr;

Ref tuple_of(const Replay& replay, const std::vector<ValueId>& values) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    Ref item = replay.object_of(values[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}

bool set(PyObject* context, const char* name, const Ref& value) {
  return value && PyObject_SetAttrString(context, name, value.get()) == 0;
}

bool fill_context(const Replay& replay, PyObject* context) {
  const FunctionRecord& record = replay.record;
  for (const FunctionRecord::Attribute& attribute : record.attributes) {
    const Ref value = attribute.plain ? Ref::borrow(attribute.plain.get()) : replay.object_of(attribute.value);
    if (!value || PyObject_SetAttr(context, attribute.name.get(), value.get()) < 0) return false;
  }
  std::vector<ValueId> others;
  for (size_t i = 0; i < record.outputs.size(); ++i)
    if (record.outputs[i].valid() && !record.differentiated[i]) others.push_back(record.outputs[i]);
  return set(context, "to_save", tuple_of(replay, record.saved)) &&
         set(context, "non_differentiable", tuple_of(replay, others)) &&
         set(context, "materialize_grads", Ref::borrow(record.materializes ? Py_True : Py_False)) &&
         (record.materializes_others || set(context, "_materialize_non_diff_grads", Ref::borrow(Py_False)));
}

PyObject* run_forward(PyObject*, PyObject* args) {
  Replay* replay = current;
  if (!replay) {
    PyErr_SetString(PyExc_RuntimeError, "framejit: the forward of a call that is over");
    return nullptr;
  }
  Ref results;
  const bool done = with_translated_errors([&] {
    {
      AllowThreads no_gil;
      replay->forward();
    }
    if (!fill_context(*replay, PyTuple_GET_ITEM(args, 0))) return false;
    results = tuple_of(*replay, replay->record.outputs);
    return static_cast<bool>(results);
  });
  return done ? results.release() : nullptr;
}

PyMethodDef forward_method = {"forward", run_forward, METH_VARARGS, nullptr};

// A class beside the program's, whose contexts are of the program's own kind.
Ref replay_class(const FunctionRecord& record) {
  Ref module = Ref::steal(PyImport_ImportModule("torch.autograd"));
  Ref base = module ? Ref::steal(PyObject_GetAttrString(module.get(), "Function")) : Ref();
  Ref forward = Ref::steal(PyCFunction_New(&forward_method, nullptr));
  if (!base || !forward) return {};
  Ref made = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(Py_TYPE(base.get())), "s(O){sO}",
                                              reinterpret_cast<PyTypeObject*>(record.function.get())->tp_name,
                                              base.get(), "forward", forward.get()));
  if (!made || PyObject_SetAttrString(made.get(), "_backward_cls", record.context_type.get()) < 0) return {};
  return made;
}

// The `apply` of C, which some releases hide behind one of Python.
Ref apply_of(PyObject* function) {
  Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
  Ref base = module ? Ref::steal(PyObject_GetAttrString(module.get(), "_FunctionBase")) : Ref();
  Ref name = Ref::steal(PyUnicode_InternFromString("apply"));
  PyObject* method = base && name ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base.get()), name.get()) : nullptr;
  if (!method) return {};
  return Ref::steal(Py_TYPE(method)->tp_descr_get(method, nullptr, function));
}

Ref call(Replay& replay) {
  const Ref made = replay_class(replay.record);
  const Ref apply = made ? apply_of(made.get()) : Ref();
  const Ref args = apply ? tuple_of(replay, replay.record.arguments) : Ref();
  if (!args) return {};
  Replay* const outer = std::exchange(current, &replay);
  Ref result = Ref::steal(PyObject_Call(apply.get(), args.get(), nullptr));
  current = outer;
  return result;
}

}  // namespace

void replay_function(const FunctionRecord& record, const Plan& plan, at::Tensor* registers,
                     const std::function<void()>& forward) {
  HoldGil gil;
  Replay replay{record, plan, registers, forward};
  const Ref result = call(replay);
  if (!result) {
    python_error error;
    error.persist();
    throw error;
  }
  for (size_t i = 0; i < record.outputs.size(); ++i)
    if (record.outputs[i].valid())
      registers[plan.register_of(record.outputs[i])] =
          unpack_tensor(PyTuple_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i)));
}

}  // namespace framejit::torchlib
