// Before 3.13: a type's version tag counts while its flag is set, and versions of dictionaries tell of all changes.
#include "eval_frame/watch.h"

uint64_t framejit_type_version(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

int framejit_dict_tells(PyObject* dict) {
  (void)dict;
  return 1;
}
int framejit_dict_own_values(PyObject* dict) { return framejit_dict_tells(dict); }
