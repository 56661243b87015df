// Owning and borrowed references to Python objects. Header-only: the `base` target itself knows no Python, and graph/
// must not include this file.
#pragma once

#include <Python.h>

#include <cstddef>
#include <utility>

namespace framejit {

class BorrowedRef {
 public:
  BorrowedRef(PyObject* obj = nullptr) : obj_(obj) {}
  PyObject* get() const { return obj_; }
  explicit operator bool() const { return obj_ != nullptr; }
  operator PyObject*() const { return obj_; }

 private:
  PyObject* obj_;
};

// Owns one reference, or none.
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  static Ref steal(PyObject* obj) { return Ref(obj); }
  static Ref borrow(PyObject* obj) {
    Py_XINCREF(obj);
    return Ref(obj);
  }
  Ref(const Ref& other) : obj_(other.obj_) { Py_XINCREF(obj_); }
  Ref(Ref&& other) noexcept : obj_(std::exchange(other.obj_, nullptr)) {}
  Ref& operator=(const Ref& other) {
    Py_XINCREF(other.obj_);
    reset(other.obj_);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) reset(std::exchange(other.obj_, nullptr));
    return *this;
  }
  ~Ref() { Py_XDECREF(obj_); }

  PyObject* get() const { return obj_; }
  PyObject* release() { return std::exchange(obj_, nullptr); }
  explicit operator bool() const { return obj_ != nullptr; }
  operator BorrowedRef() const { return obj_; }

 private:
  explicit Ref(PyObject* obj) : obj_(obj) {}
  // The old object goes last: its finaliser may run Python and look at this reference.
  void reset(PyObject* obj) {
    PyObject* old = std::exchange(obj_, obj);
    Py_XDECREF(old);
  }
  PyObject* obj_ = nullptr;
};

// What a weak reference refers to, borrowed; Py_None if that has ended, or is about to. The interpreter's functions for
// it are deprecated in 3.13, and those that take their place are new there.
inline PyObject* referent_of(PyObject* weak_reference) {
  PyObject* referent = reinterpret_cast<PyWeakReference*>(weak_reference)->wr_object;
  return Py_REFCNT(referent) > 0 ? referent : Py_None;
}

}  // namespace framejit
