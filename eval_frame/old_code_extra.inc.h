// 3.8 to 3.11: the names of the co_extra functions before they became "unstable API".
Py_ssize_t fj_abi_request_code_extra(freefunc drop) { return _PyEval_RequestCodeExtraIndex(drop); }
int fj_abi_get_code_extra(PyCodeObject* code, Py_ssize_t index, void** extra) {
  return _PyCode_GetExtra((PyObject*)code, index, extra);
}
int fj_abi_set_code_extra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return _PyCode_SetExtra((PyObject*)code, index, extra);
}
