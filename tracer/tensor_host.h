// What the tracer asks of the tensor library. runtime/torch implements it over LibTorch; unit tests fake it.
// Tensors in a trace are real Python tensor objects whose implementation is a fake: operators run on them as on any
// tensor, through the library's own argument parser and dispatcher, and are recorded below autograd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"
#include "graph/number.h"
#include "tracer/trace_stop.h"

namespace framejit {

class FrameGate;

// A call of a torch.autograd.Function that makes a node of autograd's graph.
struct FunctionCall {
  PyObject* function;  // the class
  PyObject* context;   // of the call: what the node is to Python
  std::vector<PyObject*> arguments;
  std::vector<PyObject*> outputs;
};

// Something that code of the program read, and would read anew each time that it runs.
struct FrozenRead {
  enum class Kind : uint8_t { kItem, kTypeAttr, kCell, kCode };
  Kind kind;
  Ref holder;  // dictionary, type, cell or function
  Ref name;    // of an item or attribute
  Ref found;   // null: nothing
};

class TensorHost {
 public:
  virtual ~TensorHost() = default;

  // An instance of the library's tensor type or of a subclass.
  virtual bool is_tensor(PyObject* obj) = 0;
  // True for the fakes of the running session.
  virtual bool is_fake(PyObject* obj) = 0;
  // Null if a graph may take this real tensor as an input, else the reason in words.
  virtual const char* why_not_capturable(PyObject* tensor) = 0;

  // Code of the program that the library runs to infer a result (a Meta kernel in Python) is let through this gate.
  virtual void set_gate(FrameGate*) {}
  // Whether the library's dispatcher has an operator of that name, "ns::op" or "ns::op.overload".
  virtual bool has_operator(const std::string&) { return false; }
  // Why a call of that operator is not captured as the operators that it calls itself; empty if it may be.
  virtual std::string why_not_decomposed(const std::string&) { return {}; }
  // A tensor of a level of torch.func over a fake of the running session. It counts as a fake, but stands for no value
  // of the graph, and cannot outlive the trace.
  virtual bool is_level_tensor(PyObject*) { return false; }
  // Null if a capture may begin under the thread's state as it is now, else the reason in words.
  virtual const char* why_not_now() { return nullptr; }

  // Starts recording into `capture` on this thread; remembers the thread's global state (grad mode, autocast, ...).
  // `refused`: the trace stops there.
  virtual void begin(graph::Capture* capture, const RefusedNode& refused) = 0;
  // Leaves recording and puts the global state back as it was at begin(). Called exactly once after begin().
  virtual void end() = 0;

  // A new fake for a real tensor, an input of the graph: its Python type is the real one's (Parameter too), its
  // requires_grad, is_leaf and view-ness as the real one's. New reference, or null with a Python error.
  virtual Ref make_input(PyObject* real, graph::SourceId source) = 0;
  // What a guard on this real tensor compares.
  virtual graph::TensorFacts facts(PyObject* real) = 0;
  // The packed word of global state that guard GlobalState compares, as it is now.
  virtual uint64_t global_state() = 0;
  // Whether autocast is otherwise than at begin().
  virtual bool has_other_autocast() = 0;
  // The program empties autocast's cache of casts. True: it holds those of a region of the caller's, and stays as it is
  // until that is replayed.
  virtual bool keeps_casts() { return false; }
  // Whether keeps_casts() has kept any that are to be gone, and operators would find them.
  virtual bool finds_old_casts() { return false; }
  // The devices of the `with torch.device(...)` that were active at begin(), outermost first. The session runs outside
  // of them: who calls a function of the library for the program names the device. To be asked once.
  virtual std::vector<Ref> device_contexts() { return {}; }

  // The user's line for the nodes recorded from here on.
  virtual void set_location(graph::LocationId location) = 0;

  // What `torch._C._InferenceMode(on)` does when it is entered and left, innermost first. leave_inference_mode() is
  // false if the thread's state was not put back by it as it was before.
  virtual void enter_inference_mode(bool) {}
  virtual bool leave_inference_mode() { return true; }
  // After the trace has changed state that decides what operators make.
  virtual void note_state() {}

  // After a Python error: did the recorder raise it to stop the trace (an operator that needs data, memory that is not
  // there, a real tensor that no source reaches)? Then clears the error, fills in the reason and returns true.
  virtual bool take_stop(std::string* stop_reason_name, std::string* detail) = 0;

  // Bodies of control flow (graph/control_flow.h), one after the other: what is recorded between begin_body() and
  // end_body() is taken out of the graph as one. `like`: a fake for each of its parameters is made, and returned, of
  // the kind of that fake. end_body() is false, with a reason, if the outputs or what was recorded do not make a body.
  virtual std::vector<Ref> begin_body(const std::vector<PyObject*>& like) = 0;
  virtual bool end_body(const std::vector<PyObject*>& outputs, std::string* why_not) = 0;
  // The node over the last two bodies. Its results, or none with a reason.
  virtual std::vector<Ref> record_cond(PyObject* predicate, std::string* why_not) = 0;
  virtual std::vector<Ref> record_while_loop(const std::vector<PyObject*>& carried, std::string* why_not) = 0;

  // What is recorded between the two is computed again in the backward. `first`: what the first gave. The second is
  // false with a reason if it may not run twice; `same_random`: random numbers are to be those of the forward.
  virtual size_t begin_recomputed() { return 0; }
  virtual bool end_recomputed(size_t /*first*/, bool /*same_random*/, std::string*) { return false; }

  // Calls of a torch.autograd.Function. What is recorded between the first two is its forward, which may be left
  // without a call: it raised. end_function() is false with a reason if the graph cannot hold the call.
  virtual void begin_function() {}
  virtual bool end_function(const FunctionCall*, std::string*) { return false; }
  // Gradients for the outputs of the call that ended last, null for None; empty with a reason. What is recorded until
  // end_gradient() is looked at, which is false with a reason if a backward may not do that, and dropped. `reads`: what
  // must not have changed when the backward runs.
  virtual std::vector<Ref> begin_gradient(std::string*) { return {}; }
  virtual bool end_gradient(const std::vector<PyObject*>& /*results*/, std::vector<FrozenRead>, std::string*) {
    return false;
  }

  // The engine is about to differentiate these inside of the trace. False with a reason if that cannot be part of the
  // graph. `inputs`: those whose gradients are asked for; none: those of all leaves. `leaves`: if not null, the inputs
  // in which it accumulates gradients. `keeps_history`: what it goes over can be differentiated again.
  virtual bool begin_backward(const std::vector<PyObject*>& /*roots*/, const std::vector<PyObject*>& /*inputs*/,
                              std::vector<Ref>* /*leaves*/, bool /*keeps_history*/, std::string* /*why_not*/) {
    return false;
  }
  // Whether no hook sees a gradient that reaches this real tensor.
  virtual bool has_no_grad_hooks(PyObject*) { return false; }

  // Numbers of the graph (graph/number.h), each as the fake that stands for it as a tensor. Of the one element of a
  // fake: null without an error if it is known, or not followed.
  virtual Ref number_of(PyObject* /*fake*/) { return nullptr; }
  struct NumberOperand {
    PyObject* number = nullptr;  // null: `known`
    double known = 0;
  };
  virtual Ref compute_number(graph::NumberOp, const std::vector<NumberOperand>&) { return nullptr; }
  // One that is an input of the graph: a Python float of the program's. Executables are given it as a tensor.
  virtual Ref number_input() { return nullptr; }
  // What the trace has for one: an object that ends the trace if C code looks at it.
  virtual Ref number_object() { return nullptr; }
  // What a function of the library takes for it in the place of a Scalar.
  virtual Ref number_argument(PyObject* /*number*/) { return nullptr; }

  // Value of a fake in the graph now (an in-place operator does not change it).
  virtual graph::ValueId value_of(PyObject* fake) = 0;
  // Ends the graph: these fakes are its outputs, in this order. Records the backward if any of them needs one.
  // False: with the reason a graph with these outputs cannot be run as eager would, and with the node without which it
  // could be, if that is known.
  virtual bool finish(const std::vector<PyObject*>& outputs, std::string* why_not, RefusedNode* refused) = 0;
  // Whether the graph that finish() ended has outputs with a history.
  virtual bool has_history() { return false; }
};

}  // namespace framejit
