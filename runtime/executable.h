// What the runtime knows of compiled graphs and of the tensor library: no tensor header is needed to use this file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"
#include "runtime/guards/tensor_guards.h"
#include "tracer/tensor_host.h"

namespace framejit::runtime {

enum class RunStatus : uint8_t {
  kDone,
  kRaised,  // a Python error is set; the operators before the one that raised did run, as in eager
  kUndone,  // the same, but nothing can be seen of the run: the same code may run again
  kWrong,   // as kUndone, and so would each run be: an operator gave something else than was inferred
};

// A graph that can be called. Calls may nest, and may come from several threads at once.
class Executable {
 public:
  virtual ~Executable() = default;

  // `inputs`: real tensors in the order of the graph's inputs, borrowed; the guards have been checked. `outputs`
  // receives new references, in the order in which they were given to TensorHost::finish; after a failure it holds
  // nothing.
  virtual RunStatus run(PyObject* const* inputs, PyObject** outputs) = 0;

  // How many values run() gives: as many as TensorHost::finish was given. The graph may have more outputs: what the
  // backward keeps.
  virtual size_t output_count() const = 0;

  // Those that compute gradients, in the order in which they run; none if no output requires one. For reports.
  virtual std::vector<const graph::Graph*> backward_graphs() const { return {}; }

  // A copy as a framejit.Graph, whose outputs are what run() gives. `sources`: what each input is, in words. Null with
  // a Python error.
  virtual Ref graph_object(std::vector<std::string>) const { return Ref::borrow(Py_None); }
};

// The back end of kernels, for a program that promises to leave parameters and buffers alone.
inline constexpr const char* kFrozenBackend = "native, frozen";

// The tensor library as the runtime sees it. Implemented by runtime/torch; there is one for the process.
class TensorRuntime : public TensorHost {
 public:
  // Compiles what was recorded between the last begin() and finish() on this thread, after end(). `capture` is the one
  // given to begin(); passes may have changed its graph, but inputs and outputs must be as finish() left them. It sets
  // anew which outputs are for the backward.
  // `backend` is null for the operators as recorded, a string for the operators with kernels of framejit's own (and
  // what depends on `capture.frozen_inputs` alone computed once), else a callable (fx.GraphModule, example_inputs) ->
  // callable, which may run Python. Null with a Python error set, or with `why_not` and no error: then the frame runs
  // eagerly.
  virtual std::unique_ptr<Executable> compile(graph::Capture& capture, PyObject* backend, std::string* why_not) = 0;

  // What an executable is given for a Python float that is an input of its graph. `spare`: what was given for one
  // before, or null, to be used again if nothing else holds it. Null with a Python error.
  virtual Ref tensor_of_number(PyObject* /*number*/, Ref /*spare*/) { return nullptr; }

  virtual TensorGuards guards() = 0;
};

}  // namespace framejit::runtime
