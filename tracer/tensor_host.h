// What the tracer asks of the tensor library. runtime/torch implements it over LibTorch; unit tests fake it.
// Tensors in a trace are real Python tensor objects whose implementation is a fake: operators run on them as on any
// tensor, through the library's own argument parser and dispatcher, and are recorded below autograd.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"

namespace framejit {

class TensorHost {
 public:
  virtual ~TensorHost() = default;

  // An instance of the library's tensor type or of a subclass.
  virtual bool is_tensor(PyObject* obj) = 0;
  // True for the fakes of the running session.
  virtual bool is_fake(PyObject* obj) = 0;
  // Null if a graph may take this real tensor as an input, else the reason in words.
  virtual const char* why_not_capturable(PyObject* tensor) = 0;

  // A tensor of a level of torch.func over a fake of the running session. It counts as a fake, but stands for no value of
  // the graph, and cannot outlive the trace.
  virtual bool is_level_tensor(PyObject*) { return false; }
  // Null if a capture may begin under the thread's state as it is now, else the reason in words.
  virtual const char* why_not_now() { return nullptr; }

  // Starts recording into `capture` on this thread; remembers the thread's global state (grad mode, autocast, ...).
  virtual void begin(graph::Capture* capture) = 0;
  // Leaves recording and puts the global state back as it was at begin(). Called exactly once after begin().
  virtual void end() = 0;

  // A new fake for a real tensor, an input of the graph: its Python type is the real one's (Parameter too), its
  // requires_grad, is_leaf and view-ness as the real one's. New reference, or null with a Python error.
  virtual Ref make_input(PyObject* real, graph::SourceId source) = 0;
  // What a guard on this real tensor compares.
  virtual graph::TensorFacts facts(PyObject* real) = 0;
  // The packed word of global state that guard GlobalState compares, as it is now.
  virtual uint64_t global_state() = 0;

  // The user's line for the nodes recorded from here on.
  virtual void set_location(graph::LocationId location) = 0;

  // After a Python error: did the recorder raise it to stop the trace (an operator that needs data, memory that is not
  // there, a real tensor that no source reaches)? Then clears the error, fills in the reason and returns true.
  virtual bool take_stop(std::string* stop_reason_name, std::string* detail) = 0;

  // Value of a fake in the graph now (an in-place operator does not change it).
  virtual graph::ValueId value_of(PyObject* fake) = 0;
  // Ends the graph: these fakes are its outputs, in this order. Records the backward if any of them needs one.
  // False: with the reason a graph with these outputs cannot be run as eager would (then the frame runs eagerly).
  virtual bool finish(const std::vector<PyObject*>& outputs, std::string* why_not) = 0;
};

}  // namespace framejit
