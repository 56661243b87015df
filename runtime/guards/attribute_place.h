// Where built-in objects keep what they answer for an attribute.
#pragma once

#include <Python.h>

#include "base/py_ref.h"

namespace framejit::runtime {

struct AttributePlace {
  // The field whose object is the attribute's value. Null: there is none, or it is not known.
  PyObject* const* field = nullptr;
  bool empty_is_none = false;
  // The value is what the dictionaries of this type and its bases give. Null: they have no part in it.
  PyTypeObject* type = nullptr;

  bool known() const { return field || type; }
};

// For as long as the type of `base` is what it is. Runs no Python code.
AttributePlace place_of_attribute(PyObject* base, PyObject* name);

}  // namespace framejit::runtime
