// Since 3.11: a dictionary's table says what kind of keys it may have.
#include <internal/pycore_dict.h>

#include "eval_frame/watch.h"

int framejit_dict_is_of_text(PyObject* dict) { return DK_IS_UNICODE(((PyDictObject*)dict)->ma_keys); }
