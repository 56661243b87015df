#include "runtime/report/records.h"

#include <algorithm>

#include "graph/print.h"
#include "runtime/report/explain.h"
#include "tracer/trace_stop.h"

namespace framejit::runtime {
namespace {

// A dict under construction; empty after a failure.
class Record {
 public:
  Record() : dict_(Ref::steal(PyDict_New())) {}
  Record& set(const char* key, Ref value) {
    if (dict_ && (!value || PyDict_SetItemString(dict_.get(), key, value.get()) < 0)) dict_ = nullptr;
    return *this;
  }
  Record& set(const char* key, const std::string& text) {
    return set(key, Ref::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  }
  Record& set(const char* key, uint64_t number) { return set(key, Ref::steal(PyLong_FromUnsignedLongLong(number))); }
  Ref take() { return std::move(dict_); }

 private:
  Ref dict_;
};

Ref text(const std::string& value) {
  return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

Ref guard_texts(const CompiledEntry& entry, const bytecode::DecodedCode& code) {
  Ref list = Ref::steal(PyList_New(0));
  for (size_t i = 0; list && i < entry.capture().guards.rows().size(); ++i) {
    Ref line = text(describe_guard(entry, i, &code));
    if (!line || PyList_Append(list.get(), line.get()) < 0) return nullptr;
  }
  return list;
}

Ref entry_record(const CompiledEntry& entry, const CodeCache& cache, const Segment& segment) {
  const graph::Capture& capture = entry.capture();
  const graph::Graph* backward = entry.executable() ? entry.executable()->backward_graph() : nullptr;
  const bool breaks = !entry.returns();
  const std::string reason = breaks ? stop_reason_info(static_cast<StopReason>(capture.stop_reason)).name : "";
  Record record;
  record.set("graph", graph::to_text(capture.graph))
      .set("backward", backward ? text(graph::to_text(*backward)) : Ref::borrow(Py_None))
      .set("ops", uint64_t{entry.op_count()})
      .set("guards", guard_texts(entry, cache.decoded()))
      .set("location", describe_place(cache.decoded(), segment.at()))
      .set("exit", std::string(breaks ? "break" : "return"))
      .set("reason", reason)
      .set("detail", capture.stop_detail)
      .set("stop_location", capture.stop_location)
      .set("hits", entry.hits);
  return record.take();
}

}  // namespace

namespace {

bool add_records(const CodeCache& cache, PyObject* list) {
  std::vector<const Segment*> segments;
  for (const auto& [at, segment] : cache.segments()) segments.push_back(segment.get());
  std::sort(segments.begin(), segments.end(), [](auto* a, auto* b) { return a->at() < b->at(); });
  for (const Segment* segment : segments)
    for (const auto& entry : segment->entries()) {
      Ref record = entry_record(*entry, cache, *segment);
      if (!record || PyList_Append(list, record.get()) < 0) return false;
    }
  return true;
}

}  // namespace

Ref capture_records(const CodeCache& cache) {
  Ref list = Ref::steal(PyList_New(0));
  if (!list || !add_records(cache, list.get())) return nullptr;
  for (const auto& reached : cache.reached())
    if (auto other = reached.lock())
      if (!add_records(*other, list.get())) return nullptr;
  return list;
}

Ref code_listing(const CodeCache* cache, PyObject* callable) {
  PyObject* code = cache ? cache->last_twin() : nullptr;
  if (!code && callable) {
    PyObject* function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
    if (PyFunction_Check(function)) code = PyFunction_GET_CODE(function);
  }
  return code ? text(codegen::list_code(code)) : text("");
}

Ref stats_record(const Stats& stats) {
  Record reasons;
  for (const auto& [name, count] : stats.break_reasons) reasons.set(name.c_str(), count);
  Record record;
  record.set("captures", stats.captures)
      .set("graphs", stats.graphs)
      .set("ops", stats.ops)
      .set("breaks", stats.breaks)
      .set("break_reasons", reasons.take())
      .set("fallbacks", stats.fallbacks)
      .set("hits", stats.hits)
      .set("misses", stats.misses)
      .set("shadowed", stats.shadowed)
      .set("unshadowed", stats.unshadowed)
      .set("capture_s", Ref::steal(PyFloat_FromDouble(stats.capture_s)));
  return record.take();
}

Ref stop_reason_records() {
  static constexpr StopReason kReasons[] = {
#define STOP(name, text, hint, may_reach_python) StopReason::k##name,
#include "tracer/stop_reasons.def"
#undef STOP
  };
  Record record;
  for (StopReason reason : kReasons) {
    const StopReasonInfo& info = stop_reason_info(reason);
    record.set(info.name, Ref::steal(Py_BuildValue("(ss)", info.text, info.hint)));
  }
  return record.take();
}

}  // namespace framejit::runtime
