#include "runtime/torch/function_calls.h"

#include <algorithm>
#include <limits>

#include "graph/alias.h"
#include "graph/linear.h"
#include "runtime/torch/body_recorder.h"
#include "runtime/torch/function_context.h"
#include "runtime/torch/function_replay.h"
#include "runtime/torch/gil.h"
#include "runtime/torch/plan.h"
#include "runtime/torch/py_tensor.h"
#include "runtime/torch/recorder.h"
#include "runtime/torch/recording.h"

namespace framejit::torchlib {

using graph::ValueId;

struct FunctionCalls::Record : FunctionRecord {
  size_t first_node = 0, end_node = 0;
  std::vector<FrozenRead> reads;
};

FunctionCalls::FunctionCalls() = default;

FunctionCalls::~FunctionCalls() {
  if (records_.empty()) return;
  if (!Py_IsInitialized()) {
    for (auto& record : records_) (void)record.release();
    return;
  }
  HoldGil gil;
  records_.clear();
}

graph::NodeId FunctionCalls::first_node() const {
  return records_.empty() ? graph::NodeId() : graph::NodeId(records_.front()->first_node);
}

// Recording

void FunctionCalls::begin(Recorder& recorder) {
  if (depth_++ == 0) first_node_ = recorder.graph().node_count();
  recorder.set_in_function(true);
}

namespace {

ValueId value_of(const Recorder& recorder, PyObject* tensor) {
  if (!is_tensor_object(tensor)) return {};
  FakeImpl* fake = fake_impl(unpack_tensor(tensor));
  return fake && fake->owner() == &recorder ? fake->value() : ValueId();
}

// False: a tensor among them is none of the recording.
bool add_values(const Recorder& recorder, const std::vector<PyObject*>& objects, std::vector<ValueId>& values) {
  for (PyObject* object : objects) {
    values.push_back(value_of(recorder, object));
    if (object != Py_None && !values.back().valid()) return false;
  }
  return true;
}

std::vector<PyObject*> items_of(PyObject* tuple) {
  std::vector<PyObject*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(PyTuple_GET_ITEM(tuple, i));
  return items;
}

bool add_attributes(const Recorder& recorder, PyObject* context, FunctionRecord& record) {
  PyObject** dict = _PyObject_GetDictPtr(context);
  PyObject *name, *value;
  for (Py_ssize_t pos = 0; dict && *dict && PyDict_Next(*dict, &pos, &name, &value);) {
    record.attributes.push_back({Ref::borrow(name), value_of(recorder, value), {}});
    if (!record.attributes.back().value.valid()) record.attributes.back().plain = Ref::borrow(value);
    if (is_tensor_object(value) && !record.attributes.back().value.valid()) return false;
  }
  return true;
}

// What it is a view of, in the end.
const graph::Value& whole_of(const graph::Graph& graph, ValueId value) {
  while (view_step(graph, value, &value)) {
  }
  return graph.value(value);
}

// The program may write it before the backward runs, which then reads what it holds by then; what is saved may not be.
bool holds_input(const graph::Graph& graph, const FunctionRecord& record) {
  return std::any_of(record.attributes.begin(), record.attributes.end(), [&](const FunctionRecord::Attribute& each) {
    return each.value.valid() && whole_of(graph, each.value).is_input();
  });
}

const char* why_not_outputs(const FunctionCall& call) {
  for (PyObject* output : call.outputs) {
    if (output == Py_None) continue;
    const auto is_same = [impl = unpack_tensor(output).unsafeGetTensorImpl()](PyObject* argument) {
      return argument != Py_None && unpack_tensor(argument).unsafeGetTensorImpl() == impl;
    };
    if (std::any_of(call.arguments.begin(), call.arguments.end(), is_same)) return "it changes an argument in place";
  }
  return nullptr;
}

}  // namespace

bool FunctionCalls::end(Recorder& recorder, const FunctionCall* call, std::string* why_not) {
  const bool nested = --depth_ > 0;
  recorder.set_in_function(nested);
  if (!call) return false;
  auto refuse = [&](const char* why) {
    *why_not = why;
    return false;
  };
  if (nested) return refuse("it is called in the forward of another");
  if (const char* why = why_not_outputs(*call)) return refuse(why);
  auto record = std::make_unique<Record>();
  record->first_node = first_node_;
  record->end_node = recorder.graph().node_count();
  record->function = Ref::borrow(call->function);
  record->context_type = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(call->context)));
  const Ref saved = Ref::steal(PyObject_GetAttrString(call->context, "saved_tensors"));
  if (!saved) return false;
  if (!add_values(recorder, call->arguments, record->arguments) ||
      !add_values(recorder, call->outputs, record->outputs) ||
      !add_values(recorder, items_of(saved.get()), record->saved) || !add_attributes(recorder, call->context, *record))
    return refuse("it has to do with a tensor that is not of this capture");
  if (holds_input(recorder.graph(), *record)) return refuse("its context holds a tensor from outside of the graph");
  const ContextFacts facts = context_facts(call->context);
  record->materializes = facts.materializes;
  record->materializes_others = facts.materializes_others;
  for (size_t i = 0; i < call->outputs.size(); ++i) {
    const bool differentiated = record->outputs[i].valid() && unpack_tensor(call->outputs[i]).requires_grad();
    record->differentiated.push_back(differentiated);
    if (differentiated) given_.insert(record->outputs[i].value);
  }
  if (!record->materializes && std::count(record->differentiated.begin(), record->differentiated.end(), true) > 1)
    return refuse("which of its gradients are None is known when they arrive");
  recorder.note_function();
  records_.push_back(std::move(record));
  return true;
}

std::vector<at::Tensor> FunctionCalls::begin_gradient(Recorder& recorder, BodyRecorder& bodies, std::string*) {
  const Record& record = *records_.back();
  recorder.set_in_function(true);
  input_count_ = recorder.graph().inputs().size();
  std::vector<ValueId> like;
  std::vector<bool> given;
  for (size_t i = 0; i < record.outputs.size(); ++i) {
    given.push_back(record.outputs[i].valid() &&
                    (record.differentiated[i] || (record.materializes && record.materializes_others)));
    if (given.back()) like.push_back(record.outputs[i]);
  }
  std::vector<at::Tensor> made = bodies.begin(recorder, like), gradients;
  gradients_.clear();
  for (const at::Tensor& gradient : made) gradients_.push_back(fake_impl(gradient)->value());
  size_t next = 0;
  for (const bool is_given : given) gradients.push_back(is_given ? made[next++] : at::Tensor());
  return gradients;
}

namespace {

// What a node of a backward does besides computing.
const char* why_not_node(const graph::Graph& graph, const graph::Node& node, size_t first_node) {
  const graph::OpInfo& info = graph::op_info(node.op);
  if (info.has(graph::kOpSideEffect)) return "calls an operator that may have effects";
  std::vector<ValueId> written;
  graph::written_values(graph, node, written);
  for (ValueId value : written) {
    const graph::Value& definition = whole_of(graph, value);
    // The first node stands for the gradients.
    if (definition.is_input() || definition.definition.index() <= first_node)
      return "changes a tensor that it did not make";
  }
  return nullptr;
}

}  // namespace

// A second derivative reaches a call through its graph's node and through what that computes again, so that its
// gradient arrives in parts.
bool FunctionCalls::end_gradient(Recorder& recorder, BodyRecorder& bodies, const std::vector<PyObject*>& results,
                                 std::vector<FrozenRead> reads, std::string* why_not) {
  recorder.set_in_function(false);
  const graph::Graph& graph = recorder.graph();
  const size_t first_node = records_.back()->end_node;
  *why_not = graph.inputs().size() != input_count_ ? "reads a tensor from outside" : "";
  std::vector<ValueId> values;
  if (!add_values(recorder, results, values)) *why_not = "gives a tensor that is not of this capture";
  for (size_t n = first_node + 1; n < graph.node_count() && why_not->empty(); ++n)
    if (const char* why = why_not_node(graph, graph.node(graph::NodeId(n)), first_node)) *why_not = why;
  if (const std::string op = graph::first_not_linear(graph, first_node + 1, gradients_, values);
      why_not->empty() && !op.empty())
    *why_not = "is not known to be linear in its gradients: " + op;
  bodies.drop(recorder);
  records_.back()->reads = std::move(reads);
  return why_not->empty();
}

// Running

namespace {

bool holds(const FrozenRead& read) {
  PyObject* holder = read.holder.get();
  PyObject* now = nullptr;
  switch (read.kind) {
    case FrozenRead::Kind::kItem:
      now = PyDict_GetItemWithError(holder, read.name.get());
      break;
    case FrozenRead::Kind::kTypeAttr:
      now = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(holder), read.name.get());
      break;
    case FrozenRead::Kind::kCell:
      now = PyCell_GET(holder);
      break;
    case FrozenRead::Kind::kCode:
      now = PyFunction_GET_CODE(holder);
      break;
  }
  PyErr_Clear();
  return now == read.found.get();
}

}  // namespace

bool FunctionCalls::hold() const {
  if (records_.empty()) return true;
  HoldGil gil;
  return std::all_of(records_.begin(), records_.end(), [](const std::unique_ptr<Record>& record) {
    return std::all_of(record->reads.begin(), record->reads.end(), holds);
  });
}

std::vector<ValueId> FunctionCalls::values() const {
  std::vector<ValueId> values;
  auto add = [&](ValueId value) {
    if (value.valid()) values.push_back(value);
  };
  for (const auto& record : records_) {
    for (const std::vector<ValueId>* list : {&record->arguments, &record->outputs, &record->saved})
      for (ValueId value : *list) add(value);
    for (const FunctionRecord::Attribute& attribute : record->attributes) add(attribute.value);
  }
  return values;
}

void FunctionCalls::run(const Plan& plan, at::Tensor* registers, const Plan::AfterNode& after) const {
  size_t next = 0;
  for (const auto& record : records_) {
    plan.run_nodes(registers, next, record->first_node, after);
    replay_function(*record, plan, registers,
                    [&] { plan.run_nodes(registers, record->first_node, record->end_node, nullptr); });
    for (size_t n = record->first_node; n < record->end_node; ++n) after(graph::NodeId(n));
    next = record->end_node;
  }
  plan.run_nodes(registers, next, std::numeric_limits<size_t>::max(), after);
}

}  // namespace framejit::torchlib
