// Arguments of a call -> the slots of the frame that the call would have had, without making the frame.
#pragma once

#include <vector>

#include "base/py_ref.h"
#include "bytecode/decoded_code.h"
#include "eval_frame/frame_view.h"

namespace framejit::runtime {

// References that the slots borrow from.
class BoundObjects {
 public:
  BoundObjects() = default;
  ~BoundObjects() {
    for (int i = 0; i < count_; ++i) Py_DECREF(few_[i]);
    for (PyObject* object : more_) Py_DECREF(object);
  }
  BoundObjects(const BoundObjects&) = delete;
  BoundObjects& operator=(const BoundObjects&) = delete;
  // Steals.
  PyObject* add(PyObject* object) {
    if (count_ < kFew)
      few_[count_++] = object;
    else
      more_.push_back(object);
    return object;
  }

 private:
  static constexpr int kFew = 4;
  PyObject* few_[kFew];
  int count_ = 0;
  std::vector<PyObject*> more_;
};

class ArgumentBinder {
 public:
  explicit ArgumentBinder(const bytecode::DecodedCode& code);

  size_t slot_count() const { return slot_count_; }

  // Fills `slots` (slot_count() of them) as the frame has them when its body starts: arguments, cells, free variables,
  // null elsewhere. False without a Python error if the call does not fit the signature, or with one (memory): make the
  // call itself then, to get exactly the error that Python gives.
  bool bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, PyObject** slots,
            BoundObjects& objects) const;

  // The same for a frame that was made but has not begun, so that its prologue has not run.
  bool bind_frame(const FramejitFrameView& view, PyObject** slots, BoundObjects& objects) const;
  // The call that makes the same frame again: positional arguments first, then those by keyword. `values` are borrowed.
  bool unbind_frame(const FramejitFrameView& view, std::vector<PyObject*>* values, Ref* kwnames) const;

 private:
  bool bind_positional(PyObject* const* args, Py_ssize_t nargs, PyObject** slots, BoundObjects& objects) const;
  bool bind_keywords(PyObject* const* values, PyObject* kwnames, PyObject** slots, PyObject* extra) const;
  int parameter_named(PyObject* name) const;
  bool fill_defaults(PyFunctionObject* function, PyObject** slots) const;
  bool make_cells(PyObject* closure, PyObject** slots, BoundObjects& objects) const;

  const bytecode::DecodedCode& code_;
  size_t slot_count_;
  int positional_;    // parameters that may be given by position
  int parameters_;    // all but *args and **kwargs
  int varargs_ = -1;  // slot of *args
  int varkeywords_ = -1;
  bool simple_;  // nothing but positional parameters, no cells
};

}  // namespace framejit::runtime
