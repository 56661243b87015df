// What the context of a torch.autograd.Function keeps where Python cannot read it.
#pragma once

#include <Python.h>

namespace framejit::torchlib {

struct ContextFacts {
  bool materializes;         // gradients that do not arrive are zeros, not None
  bool materializes_others;  // so are those of outputs that are not differentiated
};

ContextFacts context_facts(PyObject* context);

}  // namespace framejit::torchlib
