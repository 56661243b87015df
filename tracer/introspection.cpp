#include "tracer/introspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tracer/simulator.h"

namespace framejit {
namespace {

struct Introspection {
  const char* name;  // of a function, as the code reads it
  const char* full_name;
  StopReason reason;
  bool of_collector = false;
};

constexpr std::array kIntrospections = {
    Introspection{"_getframe", "sys._getframe", StopReason::kOwnFrame},
    Introspection{"currentframe", "inspect.currentframe", StopReason::kOwnFrame},
    Introspection{"getrefcount", "sys.getrefcount", StopReason::kObjectCounts},
    Introspection{"getsizeof", "sys.getsizeof", StopReason::kObjectCounts},
    Introspection{"getweakrefcount", "weakref.getweakrefcount", StopReason::kObjectCounts},
    Introspection{"getweakrefs", "weakref.getweakrefs", StopReason::kObjectCounts},
    Introspection{"get_objects", "gc.get_objects", StopReason::kObjectCounts, true},
    Introspection{"get_referrers", "gc.get_referrers", StopReason::kObjectCounts, true},
};
constexpr std::array kReadersOfLocals = {"locals", "vars", "eval", "exec", "dir", "breakpoint", "super"};

// Of the function of that name; null: none. The interpreter interns the names of a code object.
const Introspection* introspection_by(PyObject* name) {
  static const auto names = [] {
    std::array<PyObject*, kIntrospections.size()> made{};
    std::transform(kIntrospections.begin(), kIntrospections.end(), made.begin(),
                   [](const Introspection& row) { return interned(row.name); });
    return made;
  }();
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &kIntrospections[static_cast<size_t>(found - names.begin())];
}

bool reads_locals(PyObject* name) {
  const Introspection* row = introspection_by(name);
  if (row) return row->reason == StopReason::kOwnFrame;
  return std::any_of(kReadersOfLocals.begin(), kReadersOfLocals.end(),
                     [name](const char* reader) { return PyUnicode_CompareWithASCIIString(name, reader) == 0; });
}

}  // namespace

bool sees_locals(const bytecode::DecodedCode& code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.names.get()); ++i)
    if (reads_locals(PyTuple_GET_ITEM(code.names.get(), i))) return true;
  return false;
}

std::optional<TraceStop> why_not_capturable(const bytecode::DecodedCode& code, bytecode::InstrIndex at, bool at_start) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.names.get()); ++i) {
    const Introspection* row = introspection_by(PyTuple_GET_ITEM(code.names.get(), i));
    if (!row || (at_start && row->reason == StopReason::kOwnFrame)) continue;
    return TraceStop{row->reason, fmt::format("the code names {}", row->full_name), stop_location(code, at)};
  }
  return std::nullopt;
}

bool walks_the_collectors_objects(const bytecode::DecodedCode& code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.names.get()); ++i) {
    const Introspection* row = introspection_by(PyTuple_GET_ITEM(code.names.get(), i));
    if (row && row->of_collector) return true;
  }
  return false;
}

bool looks_at_traced_frames(const bytecode::DecodedCode& code) {
  static PyObject* const name = interned("tb_frame");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.names.get()); ++i)
    if (PyTuple_GET_ITEM(code.names.get(), i) == name) return true;
  return false;
}

}  // namespace framejit
