// Before 3.12: nothing can be watched.
#include "eval_frame/flagged_versions.inc.h"

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
