// Before 3.12: versions tell of all changes, and nothing can be watched.
#include "eval_frame/watch.h"

uint64_t framejit_type_version(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

int framejit_dict_tells(PyObject* dict) {
  (void)dict;
  return 1;
}
int framejit_dict_own_values(PyObject* dict) { return framejit_dict_tells(dict); }

int framejit_dict_watcher_add(FramejitDictChanged changed) {
  (void)changed;
  return -1;
}
int framejit_dict_watch(int watcher, PyObject* dict) {
  (void)watcher;
  (void)dict;
  return 0;
}
void framejit_dict_unwatch(int watcher, PyObject* dict) {
  (void)watcher;
  (void)dict;
}
