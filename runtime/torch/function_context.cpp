#include "runtime/torch/function_context.h"

#include <torch/csrc/autograd/python_function.h>

namespace framejit::torchlib {

ContextFacts context_facts(PyObject* context) {
  const auto* function = reinterpret_cast<const THPFunction*>(context);
  return {function->materialize_grads, function->materialize_non_diff_grads};
}

}  // namespace framejit::torchlib
