// Python source as test data.
#pragma once

#include <Python.h>
#include <gtest/gtest.h>

#include "base/py_ref.h"

namespace framejit::runtime {

class PythonTest : public testing::Test {
 protected:
  void SetUp() override {
    globals_ = Ref::steal(PyDict_New());
    PyDict_SetItemString(globals_.get(), "__builtins__", PyEval_GetBuiltins());
  }
  void TearDown() override {
    EXPECT_FALSE(PyErr_Occurred());
    PyErr_Clear();
  }
  void exec(const char* source) {
    Ref done = Ref::steal(PyRun_String(source, Py_file_input, globals_.get(), globals_.get()));
    if (!done) PyErr_Print();
    ASSERT_TRUE(done) << source;
  }
  Ref eval(const char* source) {
    Ref value = Ref::steal(PyRun_String(source, Py_eval_input, globals_.get(), globals_.get()));
    if (!value) PyErr_Print();
    EXPECT_TRUE(value) << source;
    return value;
  }
  bool holds(const char* source) { return PyObject_IsTrue(eval(source).get()) == 1; }
  PyObject* name(const char* name) { return PyDict_GetItemString(globals_.get(), name); }
  void set(const char* name, PyObject* value) { PyDict_SetItemString(globals_.get(), name, value); }

  Ref globals_;
};

}  // namespace framejit::runtime
