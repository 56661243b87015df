#include "runtime/call/bind.h"

#include <algorithm>

namespace framejit::runtime {
namespace {

enum CodeFlag : int32_t { kVarArgs = 0x4, kVarKeywords = 0x8 };

}  // namespace

ArgumentBinder::ArgumentBinder(const bytecode::DecodedCode& code)
    : code_(code),
      slot_count_(code.slots.size()),
      positional_(code.arg_count),
      parameters_(code.arg_count + code.kwonly_arg_count) {
  int next = parameters_;
  if (code.flags & kVarArgs) varargs_ = next++;
  if (code.flags & kVarKeywords) varkeywords_ = next++;
  simple_ = next == positional_ && code.cell_count == 0 && code.free_count == 0;
}

bool ArgumentBinder::bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                          PyObject** slots, BoundObjects& objects) const {
  std::fill(slots, slots + slot_count_, nullptr);
  if (simple_ && nargs == positional_ && !kwnames) {
    std::copy(args, args + nargs, slots);
    return true;
  }
  if (!bind_positional(args, nargs, slots, objects)) return false;
  PyObject* extra = nullptr;
  if (varkeywords_ >= 0) {
    extra = PyDict_New();
    if (!extra) return false;
    slots[varkeywords_] = objects.add(extra);
  }
  if (kwnames && !bind_keywords(args + nargs, kwnames, slots, extra)) return false;
  return fill_defaults(function, slots) && make_cells(function->func_closure, slots, objects);
}

bool ArgumentBinder::bind_positional(PyObject* const* args, Py_ssize_t nargs, PyObject** slots,
                                     BoundObjects& objects) const {
  const Py_ssize_t named = std::min<Py_ssize_t>(nargs, positional_);
  std::copy(args, args + named, slots);
  if (varargs_ < 0) return nargs <= positional_;
  PyObject* rest = PyTuple_New(nargs - named);
  if (!rest) return false;
  for (Py_ssize_t i = named; i < nargs; ++i) {
    Py_INCREF(args[i]);
    PyTuple_SET_ITEM(rest, i - named, args[i]);
  }
  slots[varargs_] = objects.add(rest);
  return true;
}

// -1: none.
int ArgumentBinder::parameter_named(PyObject* name) const {
  const int first = code_.posonly_arg_count;
  for (int i = first; i < parameters_; ++i)
    if (code_.slot_name(i).get() == name) return i;
  for (int i = first; i < parameters_; ++i)
    if (PyUnicode_Compare(code_.slot_name(i), name) == 0) return i;
  return -1;
}

bool ArgumentBinder::bind_keywords(PyObject* const* values, PyObject* kwnames, PyObject** slots,
                                   PyObject* extra) const {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    const int slot = PyUnicode_Check(name) ? parameter_named(name) : -1;
    if (slot >= 0) {
      if (slots[slot]) return false;
      slots[slot] = values[i];
    } else if (!extra || !PyUnicode_Check(name) || PyDict_SetItem(extra, name, values[i]) < 0) {
      return false;
    }
  }
  return true;
}

bool ArgumentBinder::fill_defaults(PyFunctionObject* function, PyObject** slots) const {
  PyObject* defaults = function->func_defaults;
  const int first_default = positional_ - (defaults ? static_cast<int>(PyTuple_GET_SIZE(defaults)) : 0);
  for (int i = 0; i < positional_; ++i) {
    if (slots[i]) continue;
    if (i < first_default) return false;
    slots[i] = PyTuple_GET_ITEM(defaults, i - first_default);
  }
  for (int i = positional_; i < parameters_; ++i) {
    if (slots[i]) continue;
    if (!function->func_kwdefaults) return false;
    slots[i] = PyDict_GetItemWithError(function->func_kwdefaults, code_.slot_name(i));
    if (!slots[i]) return false;
  }
  return true;
}

bool ArgumentBinder::make_cells(PyObject* closure, PyObject** slots, BoundObjects& objects) const {
  Py_ssize_t next_free = 0;
  for (size_t i = 0; i < slot_count_; ++i) {
    const bytecode::LocalSlot& slot = code_.slots[i];
    if (slot.is_free) {
      if (!closure || next_free >= PyTuple_GET_SIZE(closure)) return false;
      slots[i] = PyTuple_GET_ITEM(closure, next_free++);
    } else if (slot.is_cell) {
      PyObject*& content = slot.from_arg >= 0 ? slots[slot.from_arg] : slots[i];
      PyObject* cell = PyCell_New(content);
      if (!cell) return false;
      content = nullptr;
      slots[i] = objects.add(cell);
    }
  }
  return true;
}

bool ArgumentBinder::bind_frame(const FramejitFrameView& view, PyObject** slots, BoundObjects& objects) const {
  if (!bytecode::traits(code_.version).has_resume) {  // the frame's maker has done all of it
    std::copy(view.localsplus, view.localsplus + slot_count_, slots);
    return true;
  }
  std::fill(slots, slots + slot_count_, nullptr);
  const int count = framejit_code_argument_count(view.code);
  for (int i = 0; i < count; ++i) slots[i] = framejit_frame_argument(&view, i);
  return make_cells(view.closure, slots, objects);
}

bool ArgumentBinder::unbind_frame(const FramejitFrameView& view, std::vector<PyObject*>* values, Ref* kwnames) const {
  for (int i = 0; i < positional_; ++i) values->push_back(framejit_frame_argument(&view, i));
  PyObject* rest = varargs_ >= 0 ? framejit_frame_argument(&view, varargs_) : nullptr;
  for (Py_ssize_t i = 0; rest && i < PyTuple_GET_SIZE(rest); ++i) values->push_back(PyTuple_GET_ITEM(rest, i));
  Ref names = Ref::steal(PyList_New(0));
  for (int i = positional_; names && i < parameters_; ++i) {
    if (PyList_Append(names.get(), code_.slot_name(i)) < 0) return false;
    values->push_back(framejit_frame_argument(&view, i));
  }
  PyObject* extra = varkeywords_ >= 0 ? framejit_frame_argument(&view, varkeywords_) : nullptr;
  Py_ssize_t position = 0;
  for (PyObject *key, *value; extra && names && PyDict_Next(extra, &position, &key, &value);) {
    // A call with these would hash them once more, which code of the program may do.
    if (!PyUnicode_CheckExact(key) || PyList_Append(names.get(), key) < 0) return false;
    values->push_back(value);
  }
  if (names && PyList_GET_SIZE(names.get()) != 0) *kwnames = Ref::steal(PyList_AsTuple(names.get()));
  return names && !PyErr_Occurred();
}

}  // namespace framejit::runtime
