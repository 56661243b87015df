// `framejit._C._testing`: recording and replay without a tracer, for tests of runtime/torch.
#pragma once

#include <Python.h>

namespace framejit {

// New reference, or null with a Python error.
PyObject* make_torch_testing_module();

}  // namespace framejit
