#include "runtime/torch/fx_executable.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "runtime/torch/fx_export.h"
#include "runtime/torch/graph_object.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/trace_stop.h"

namespace framejit::torchlib {

using graph::ValueId;
using runtime::RunStatus;

namespace {

class FxExecutable final : public runtime::Executable {
 public:
  FxExecutable(const graph::Graph& graph, Ref callable, std::vector<OutputSpec> outputs, ProgramFacts facts)
      : graph_(graph),
        callable_(std::move(callable)),
        outputs_(std::move(outputs)),
        facts_(std::move(facts)),
        input_count_(graph.inputs().size()) {}

  size_t output_count() const override { return outputs_.size(); }
  Ref graph_object(std::vector<std::string> sources) const override {
    return copy_of_program(graph_, facts_, outputs_, std::move(sources));
  }

  // The callable is the user's: so are its errors, and what it did before them.
  RunStatus run(PyObject* const* inputs, PyObject** outputs) override {
    return call(inputs, outputs) ? RunStatus::kDone : RunStatus::kRaised;
  }

 private:
  bool call(PyObject* const* inputs, PyObject** outputs) {
    Ref result;
    {
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      result = Ref::steal(_PyObject_Vectorcall(callable_.get(), inputs, input_count_, nullptr));
    }
    if (result && is_tensor_object(result.get())) result = Ref::steal(PyTuple_Pack(1, result.get()));
    Ref items =
        Ref::steal(result ? PySequence_Fast(result.get(), "a back end's callable must return a sequence") : nullptr);
    if (!items) return false;
    return distribute(items.get(), inputs, outputs);
  }

  bool distribute(PyObject* items, PyObject* const* inputs, PyObject** outputs) const {
    Py_ssize_t expected = 0, next = 0;
    for (const OutputSpec& output : outputs_) expected += output.input < 0;
    if (PySequence_Fast_GET_SIZE(items) != expected) {
      PyErr_Format(PyExc_RuntimeError, "the back end's callable returned %zd tensors, expected %zd",
                   PySequence_Fast_GET_SIZE(items), expected);
      return false;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs[i] = outputs_[i].input >= 0 ? inputs[outputs_[i].input] : PySequence_Fast_GET_ITEM(items, next++);
      Py_INCREF(outputs[i]);
    }
    return true;
  }

  const graph::Graph& graph_;  // the capture's, which lives as long
  Ref callable_;
  std::vector<OutputSpec> outputs_;
  ProgramFacts facts_;
  size_t input_count_;
};

}  // namespace

std::unique_ptr<runtime::Executable> make_fx_executable(const graph::Graph& graph, const Recording& recording,
                                                        PyObject* backend, std::string* why_not) {
  ProgramFacts facts = program_facts(recording);
  if (!facts.why_no_fx.empty()) return *why_not = facts.why_no_fx, nullptr;
  if (recording.training() || !recording.freed_roots.empty())
    return *why_not = "a graph with a backward is not given to a back end", nullptr;
  std::vector<ValueId> computed;
  for (const OutputSpec& output : recording.outputs)
    if (output.input < 0) computed.push_back(output.value);
  Ref module = export_to_fx(graph, facts.constants, computed);
  Ref examples = module ? fx_examples(graph) : Ref();
  if (!examples) return nullptr;
  Ref callable = Ref::steal(PyObject_CallFunctionObjArgs(backend, module.get(), examples.get(), nullptr));
  if (!callable) return nullptr;
  if (!PyCallable_Check(callable.get())) {
    PyErr_Format(PyExc_TypeError, "a back end must return a callable, got %s", Py_TYPE(callable.get())->tp_name);
    return nullptr;
  }
  return std::make_unique<FxExecutable>(graph, std::move(callable), recording.outputs, std::move(facts));
}

}  // namespace framejit::torchlib
