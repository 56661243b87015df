#include "runtime/call/tracebacks.h"

#include <frameobject.h>

#include <algorithm>

#include "bytecode/code_object.h"
#include "bytecode/line_table.h"
#include "eval_frame/ended_frame.h"
#include "runtime/cache/twin_origin.h"

namespace framejit::runtime {
namespace {

using bytecode::Position;

constexpr size_t kUnitBytes = 2;

template <class Visit>
void for_each_carried(const Transfer& transfer, Visit visit) {
  for (const Ref& value : transfer.slots)
    if (value) visit(value.get());
  for (const auto& [slot, value] : transfer.locals)
    if (value) visit(value.get());
}

std::vector<Position> positions_of(PyObject* frame) {
  const Ref code = Ref::steal(PyObject_GetAttrString(frame, "f_code"));
  const bytecode::CodeParts parts = bytecode::read_code(reinterpret_cast<PyCodeObject*>(code.get()));
  return bytecode::parse_line_table(bytecode::traits(bytecode::current_version()).line_format, parts.raw.line_table,
                                    parts.raw.first_line, parts.raw.code.size() / kUnitBytes);
}

// Calls `visit` with what a list, tuple or dictionary holds.
template <class Visit>
void for_each_item(PyObject* container, Visit visit) {
  if (PyList_CheckExact(container) || PyTuple_CheckExact(container)) {
    PyObject** items = PySequence_Fast_ITEMS(container);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) visit(items[i]);
  } else if (PyDict_CheckExact(container)) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(container, &pos, &key, &value);) visit(value);
  }
}

bool is_container(PyObject* value) {
  return PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value);
}

// Rewrites the entries of one frame, in all tracebacks that are reached from some exceptions.
class Mover {
 public:
  explicit Mover(PyObject* from) : from_(from) {}

  // As all_holders gives them.
  void move_all(const std::vector<Ref>& holders) {
    for (const Ref& holder : holders)
      if (PyTraceBack_Check(holder.get()))
        move(reinterpret_cast<PyTracebackObject*>(holder.get()));
      else
        framejit_frame_set_back(holder.get(), reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  }

  void visit(PyObject* value) {
    if (PyTraceBack_Check(value)) return visit_traceback(value);
    if (!PyExceptionInstance_Check(value) && !is_container(value)) return;
    if (seen_.size() == kMost || std::count(seen_.begin(), seen_.end(), value)) return;
    seen_.push_back(value);
    if (is_container(value)) return for_each_item(value, [&](PyObject* item) { visit(item); });
    const Ref parts[] = {Ref::steal(PyException_GetTraceback(value)), Ref::steal(PyException_GetContext(value)),
                         Ref::steal(PyException_GetCause(value))};
    for (const Ref& part : parts)
      if (part) visit(part.get());
  }

 private:
  void visit_traceback(PyObject* first) {
    for (auto* entry = reinterpret_cast<PyTracebackObject*>(first); entry; entry = entry->tb_next)
      if (reinterpret_cast<PyObject*>(entry->tb_frame) == from_) move(entry);
  }

  void move(PyTracebackObject* entry) {
    if (!to_) {
      to_ = reinterpret_cast<PyObject*>(PyEval_GetFrame());
      was_ = positions_of(from_);
      is_ = positions_of(to_);
    }
    const Ref line = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(entry), "tb_lineno"));
    entry->tb_lineno = line ? static_cast<int>(PyLong_AsLong(line.get())) : -1;
    entry->tb_lasti = place(entry->tb_lasti);
    Ref left = Ref::steal(reinterpret_cast<PyObject*>(entry->tb_frame));
    entry->tb_frame = reinterpret_cast<PyFrameObject*>(Ref::borrow(to_).release());
  }

  // The code that runs now has the instructions of the code that was left, at other places.
  int place(int lasti) const {
    const size_t unit = static_cast<size_t>(lasti) / kUnitBytes;
    if (lasti < 0 || unit >= was_.size()) return lasti;
    const auto found = std::find(is_.begin(), is_.end(), was_[unit]);
    return found == is_.end() ? lasti : static_cast<int>(found - is_.begin()) * static_cast<int>(kUnitBytes);
  }

  static constexpr size_t kMost = 256;  // exceptions and containers

  PyObject* from_;
  PyObject* to_ = nullptr;
  std::vector<Position> was_, is_;  // by code unit
  std::vector<PyObject*> seen_;
};

// What names a frame, as far as it is looked for.
class Finder {
 public:
  explicit Finder(PyObject* frame) : frame_(frame) {}

  // To be called for each place that has the value: an exception, a traceback, or a container of such; all else has
  // none.
  void visit(PyObject* value) {
    if (!value) return;
    if (PyTraceBack_Check(value)) return visit_traceback(reinterpret_cast<PyTracebackObject*>(value));
    if (is_container(value)) return visit_container(value);
    if (!PyExceptionInstance_Check(value) || !note_place(value)) return;
    const Ref parts[] = {Ref::steal(PyException_GetTraceback(value)), Ref::steal(PyException_GetContext(value)),
                         Ref::steal(PyException_GetCause(value))};
    for (const Ref& part : parts) visit(part.get());
  }

  // `running`: then the interpreter holds it too.
  bool found_all(bool running = false) const {
    return Py_REFCNT(frame_) == static_cast<Py_ssize_t>(entries_.size() + callees_.size() + running);
  }
  // Whether the places that were visited are all that have what was found.
  bool are_only_places() const {
    return std::all_of(found_.begin(), found_.end(),
                       [](const Found& row) { return !row.leads_on || Py_REFCNT(row.object) == row.places; });
  }
  const std::vector<PyTracebackObject*>& entries() const { return entries_; }

 private:
  // Exceptions, tracebacks and containers, items of one, and entries of one: those of a frame come first in what passed
  // it.
  static constexpr size_t kMost = 64;

  struct Found {
    PyObject* object;
    Py_ssize_t places = 1;
    bool leads_on = true;  // an exception, a traceback, or a container with one in it
  };

  // Whether it is seen for the first time, and there are not too many.
  bool note_place(PyObject* value) {
    visited_ += !is_container(value);
    const auto known =
        std::find_if(found_.begin(), found_.end(), [&](const Found& row) { return row.object == value; });
    if (known != found_.end()) return ++known->places, false;
    if (found_.size() == kMost) return false;
    found_.push_back({value});
    return true;
  }

  void visit_container(PyObject* container) {
    if (PyObject_Size(container) > static_cast<Py_ssize_t>(kMost) || !note_place(container)) return;
    const size_t row = found_.size() - 1, before = visited_;
    for_each_item(container, [&](PyObject* item) { visit(item); });
    found_[row].leads_on = visited_ > before;
  }

  void visit_traceback(PyTracebackObject* entry) {
    for (size_t i = 0; entry && i < kMost; ++i, entry = entry->tb_next) {
      if (!note_place(reinterpret_cast<PyObject*>(entry))) return;
      auto* frame = reinterpret_cast<PyObject*>(entry->tb_frame);
      if (frame == frame_)
        add(entries_, entry);
      else if (framejit_frame_has_ended(frame) && framejit_frame_back(frame) == frame_)
        add(callees_, frame);
    }
  }

  template <class T>
  static void add(std::vector<T>& list, T item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }

  PyObject* frame_;
  std::vector<Found> found_;
  size_t visited_ = 0;  // places with an exception or a traceback
  std::vector<PyTracebackObject*> entries_;
  std::vector<PyObject*> callees_;  // that hold it as their caller
};

// The frame of a twin that has ended, among the first that the traceback names.
PyObject* ended_twin_frame(PyObject* traceback, const TwinOrigin** origin) {
  auto* entry = reinterpret_cast<PyTracebackObject*>(traceback);
  auto* frame = reinterpret_cast<PyObject*>(entry->tb_frame);
  if (!framejit_frame_has_ended(frame)) return nullptr;
  FrameView view;
  framejit_frame_view(frame, &view);
  *origin = twin_origin(reinterpret_cast<PyObject*>(view.code));
  return *origin ? frame : nullptr;
}

// `traceback`: the present exception's, or one that the frame has returned.
void show_own_code_in(PyObject* traceback, PyObject* result) {
  const TwinOrigin* origin = nullptr;
  PyObject* frame = ended_twin_frame(traceback, &origin);
  if (!frame) return;
  PyObject* own_code = reinterpret_cast<PyWeakReference*>(origin->code.get())->wr_object;
  if (!PyCode_Check(own_code)) return;
  FrameView view;
  framejit_frame_view(frame, &view);
  Finder finder(frame);
  finder.visit(traceback);
  finder.visit(result);
  for (int i = 0; i < view.nlocalsplus; ++i) finder.visit(view.localsplus[i]);
  if (!finder.found_all()) return;
  auto own_offset = [&](int lasti) {
    return lasti < 0 ? lasti : static_cast<int>(origin->offsets.offset_of(static_cast<uint32_t>(lasti) / kUnitBytes));
  };
  for (PyTracebackObject* entry : finder.entries()) entry->tb_lasti = own_offset(entry->tb_lasti);
  const Ref held = Ref::borrow(own_code);
  framejit_frame_become(frame, reinterpret_cast<PyCodeObject*>(own_code), own_offset(view.lasti));
}

// Of what a frame gives: an exception, a traceback, or what sys.exc_info() gives. Null for all else.
Ref traceback_of(PyObject* value) {
  Ref traceback = Ref::borrow(value);
  if (PyExceptionInstance_Check(value)) traceback = Ref::steal(PyException_GetTraceback(value));
  if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 3) traceback = Ref::borrow(PyTuple_GET_ITEM(value, 2));
  // with_traceback(None) leaves None there.
  return traceback && PyTraceBack_Check(traceback.get()) ? traceback : Ref();
}

}  // namespace

void show_own_code(PyObject* result) {
  if (result) {
    const Ref traceback = traceback_of(result);
    if (traceback) show_own_code_in(traceback.get(), result);
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (traceback && PyTraceBack_Check(traceback)) show_own_code_in(traceback, value);
  PyErr_Restore(type, value, traceback);
}

namespace {

// Where exceptions are handled in blocks, the thread has their traceback in a place of its own.
void visit_handled(Finder& finder) {
  PyObject *type, *value, *traceback;
  PyErr_GetExcInfo(&type, &value, &traceback);
  const Ref held[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  finder.visit(value);
  if (bytecode::traits(bytecode::current_version()).has_blocks) finder.visit(traceback);
}

}  // namespace

FrameHolder frame_holder(const FrameView& view, int depth) {
  PyObject* frame = framejit_frame_object(&view);
  if (!frame || Py_REFCNT(frame) == 1) return FrameHolder::kNone;
  Finder finder(frame);
  visit_handled(finder);
  for (int i = 0; i < view.nlocalsplus; ++i) finder.visit(view.localsplus[i]);
  for (int i = 0; i < depth; ++i) finder.visit(view.stack[i]);
  return finder.found_all(true) && finder.are_only_places() ? FrameHolder::kOwnExceptions : FrameHolder::kOthers;
}

namespace {

// The entries of tracebacks that name the frame, wherever they are, and the frames that it has called, which have
// ended. Slow: looks at all objects of the process.
std::vector<Ref> holders_of(PyObject* frame) {
  std::vector<Ref> holders;
  const Ref gc = Ref::steal(PyImport_ImportModule("gc"));
  const Ref found = Ref::steal(gc ? PyObject_CallMethod(gc.get(), "get_referrers", "O", frame) : nullptr);
  if (!found) PyErr_Clear();
  for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(found.get()); ++i) {
    PyObject* referrer = PyList_GET_ITEM(found.get(), i);
    const bool called =
        PyFrame_Check(referrer) && framejit_frame_has_ended(referrer) && framejit_frame_back(referrer) == frame;
    if (PyTraceBack_Check(referrer) || called) holders.push_back(Ref::borrow(referrer));
  }
  return holders;
}

}  // namespace

std::optional<std::vector<Ref>> all_holders(const FrameView& view) {
  PyObject* frame = framejit_frame_object(&view);
  std::vector<Ref> holders = holders_of(frame);
  if (Py_REFCNT(frame) != static_cast<Py_ssize_t>(1 + holders.size())) return std::nullopt;
  return holders;
}

void move_tracebacks(const Transfer& transfer) {
  if (!transfer.left_frame) return;
  Mover mover(transfer.left_frame.get());
  mover.move_all(transfer.holders);
  for_each_carried(transfer, [&](PyObject* value) { mover.visit(value); });
}

}  // namespace framejit::runtime
