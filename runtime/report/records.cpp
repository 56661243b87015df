#include "runtime/report/records.h"

#include <algorithm>

#include "graph/print.h"
#include "runtime/python_util.h"
#include "runtime/report/explain.h"
#include "runtime/report/graph_data.h"
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

Ref text_object(const std::string& value) {
  return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}

Ref guard_texts(const CompiledEntry& entry, const bytecode::DecodedCode& code) {
  const auto& rows = entry.capture().guards.rows();
  return list_of(rows, [&](const graph::Guard& guard) {
    return text_object(describe_guard(entry, static_cast<size_t>(&guard - rows.data()), &code));
  });
}

Ref number(double value) { return Ref::steal(PyFloat_FromDouble(value)); }

std::string reason_name(StopReason reason) { return stop_reason_info(reason).name; }

}  // namespace

Ref entry_record(const CompiledEntry& entry, const CodeCache& cache, const Segment& segment) {
  const graph::Capture& capture = entry.capture();
  const graph::Graph& graph = capture.graph;
  std::string backward;
  if (entry.executable())
    for (const graph::Graph* part : entry.executable()->backward_graphs()) backward += graph::to_text(*part);
  const bool breaks = !entry.returns();
  std::vector<std::string> sources;
  for (graph::SourceId source : capture.input_sources)
    sources.push_back(describe_source(entry, source, &cache.decoded()));
  const GraphData data(graph);
  Record record;
  record.set("graph", graph::to_text(graph))
      .set("backward", backward.empty() ? Ref::borrow(Py_None) : text_object(backward))
      .set("ops", uint64_t{entry.op_count()})
      .set("guards", guard_texts(entry, cache.decoded()))
      .set("location", describe_place(cache.decoded(), segment.at()))
      .set("exit", std::string(breaks ? "break" : "return"))
      .set("reason", breaks ? reason_name(static_cast<StopReason>(capture.stop_reason)) : "")
      .set("detail", capture.stop_detail)
      .set("stop_location", capture.stop_location)
      .set("hits", entry.hits)
      .set("capture_s", number(entry.capture_s))
      .set("lines",
           list_of(capture.lines,
                   [](const auto& line) { return Ref::steal(Py_BuildValue("(si)", line.first.c_str(), line.second)); }))
      .set("sources", list_of(sources, text_object))
      .set("program", entry.executable() ? entry.executable()->graph_object(sources) : Ref::borrow(Py_None))
      .set("inputs", data.inputs())
      .set("outputs", data.outputs())
      .set("nodes", data.nodes());
  return record.take();
}

Ref eager_record(const CodeCache& cache, const Segment& segment) {
  const TraceStop& stop = segment.why_eager();
  Record record;
  record.set("graph", std::string())
      .set("backward", Ref::borrow(Py_None))
      .set("program", Ref::borrow(Py_None))
      .set("ops", uint64_t{0})
      .set("guards", Ref::steal(PyList_New(0)))
      .set("location", describe_place(cache.decoded(), segment.at()))
      .set("exit", std::string("eager"))
      .set("reason", reason_name(stop.reason))
      .set("detail", stop.detail)
      .set("stop_location", stop.location)
      .set("hits", uint64_t{0})
      .set("capture_s", number(0));
  for (const char* key : {"lines", "sources", "inputs", "outputs", "nodes"}) record.set(key, Ref::steal(PyList_New(0)));
  return record.take();
}

namespace {

bool add_records(const CodeCache& cache, PyObject* list) {
  std::vector<const Segment*> segments;
  for (const auto& [at, segment] : cache.segments()) segments.push_back(segment.get());
  std::sort(segments.begin(), segments.end(), [](auto* a, auto* b) { return a->at() < b->at(); });
  for (const Segment* segment : segments)
    for (const auto& entry : std::vector(segment->entries())) {  // a repr may let other threads in, which reset
      Ref record = entry_record(*entry, cache, *segment);
      if (!record || PyList_Append(list, record.get()) < 0) return false;
    }
  for (const Segment* segment : segments) {
    if (!segment->eager() && !segment->refused()) continue;
    Ref record = eager_record(cache, *segment);
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

Ref code_listing(CodeCache* cache, PyObject* callable) {
  Ref code;
  if (cache && cache->has_twin()) {
    code = cache->twin();
    if (!code) return nullptr;
  } else if (callable) {
    PyObject* function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
    if (PyFunction_Check(function)) code = Ref::borrow(PyFunction_GET_CODE(function));
  }
  return code ? text_object(codegen::list_code(code.get())) : text_object("");
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
