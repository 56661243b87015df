// Since 3.12: dictionaries can be watched.
#include "eval_frame/watch.h"

static FramejitDictChanged fj_dict_changed;
static PyInterpreterState* fj_watched_interpreter;

static int on_dict_event(PyDict_WatchEvent event, PyObject* dict, PyObject* key, PyObject* value) {
  (void)key;
  (void)value;
  fj_dict_changed(dict, event == PyDict_EVENT_DEALLOCATED);
  return 0;
}

int framejit_dict_watcher_add(FramejitDictChanged changed) {
  fj_dict_changed = changed;
  fj_watched_interpreter = PyInterpreterState_Get();
  const int watcher = PyDict_AddWatcher(on_dict_event);
  if (watcher < 0) PyErr_Clear();
  return watcher;
}

int framejit_dict_watch(int watcher, PyObject* dict) {
  if (PyInterpreterState_Get() != fj_watched_interpreter) return 0;
  if (PyDict_Watch(watcher, dict) == 0) return 1;
  PyErr_Clear();
  return 0;
}

void framejit_dict_unwatch(int watcher, PyObject* dict) {
  if (PyDict_Unwatch(watcher, dict) < 0) PyErr_Clear();
}
