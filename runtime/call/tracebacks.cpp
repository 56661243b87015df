#include "runtime/call/tracebacks.h"

#include <frameobject.h>

#include <algorithm>

#include "bytecode/code_object.h"
#include "bytecode/line_table.h"

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

// Rewrites the entries of one frame, in all tracebacks that are reached from some exceptions.
class Mover {
 public:
  explicit Mover(PyObject* from) : from_(from) {}

  void visit(PyObject* value) {
    if (PyTraceBack_Check(value)) return visit_traceback(value);
    if (!PyExceptionInstance_Check(value) || std::count(seen_.begin(), seen_.end(), value)) return;
    seen_.push_back(value);
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

  PyObject* from_;
  PyObject* to_ = nullptr;
  std::vector<Position> was_, is_;  // by code unit
  std::vector<PyObject*> seen_;
};

}  // namespace

Ref frame_in_tracebacks(const Transfer& transfer) {
  bool any = false;
  for_each_carried(transfer, [&](PyObject* value) { any |= PyExceptionInstance_Check(value) != 0; });
  return any ? Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame())) : Ref();
}

void move_tracebacks(const Transfer& transfer) {
  if (!transfer.left_frame) return;
  Mover mover(transfer.left_frame.get());
  for_each_carried(transfer, [&](PyObject* value) { mover.visit(value); });
}

}  // namespace framejit::runtime
