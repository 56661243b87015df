#include "runtime/report/log.h"

#include <set>

#include "base/check.h"
#include "eval_frame/hook.h"
#include "runtime/report/explain.h"
#include "runtime/report/records.h"

namespace framejit::runtime {
namespace {

Ref& internal_error_slot() {
  static auto* const type = new Ref(Ref::borrow(PyExc_RuntimeError));
  return *type;
}

void log_warning(const std::string& text) {
  HookPauseScope no_hook;  // handlers of the log are the program's, not what it runs
  Ref logging = Ref::steal(PyImport_ImportModule("logging"));
  Ref logger = logging ? Ref::steal(PyObject_CallMethod(logging.get(), "getLogger", "s", "framejit")) : nullptr;
  Ref done = logger ? Ref::steal(PyObject_CallMethod(logger.get(), "warning", "ss", "%s", text.c_str())) : nullptr;
  if (!done) PyErr_Clear();
}

}  // namespace

void set_internal_error_type(PyObject* type) { internal_error_slot() = Ref::borrow(type); }

std::string take_python_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref held_type = Ref::steal(type), held_value = Ref::steal(value), held_traceback = Ref::steal(traceback);
  Ref text = held_value ? Ref::steal(PyObject_Str(held_value.get())) : nullptr;
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string result = type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "no error";
  if (utf8 && *utf8) result += std::string(": ") + utf8;
  PyErr_Clear();
  return result;
}

bool report_internal_error(const std::string& what) {
  if (engine().strict) {
    PyErr_SetString(internal_error_slot().get(), what.c_str());
    return true;
  }
  static auto* const seen = new std::set<std::string>;
  if (seen->insert(what).second)
    log_warning("internal error, the code runs eagerly (set FRAMEJIT_STRICT=1 to raise): " + what);
  return false;
}

void raise_internal_error(const std::string& what) {
  if (!PyErr_Occurred()) PyErr_SetString(internal_error_slot().get(), what.c_str());
}

std::string describe_miss(CodeCache& cache, Segment& segment, const FrameInputs& inputs) {
  HookPauseScope no_hook;
  if (segment.entries().empty()) return {};
  return describe_failed_guard(*segment.entries().front(), inputs, &cache.decoded());
}

void report_capture(CodeCache& cache, Segment& segment, const CompiledEntry* entry, const std::string& missed) {
  HookPauseScope no_hook;
  Ref record = entry ? entry_record(*entry, cache, segment) : eager_record(cache, segment);
  Ref listing = record ? code_listing(&cache, nullptr) : nullptr;
  Ref done = listing ? Ref::steal(PyObject_CallFunction(engine().on_capture.get(), "OsO", record.get(), missed.c_str(),
                                                        listing.get()))
                     : nullptr;
  if (!done) PyErr_WriteUnraisable(engine().on_capture.get());
}

void report_too_many_entries(CodeCache& cache, Segment& segment, const FrameInputs& inputs) {
  if (engine().everything) return;  // of code that was not chosen to be captured
  const bytecode::DecodedCode& code = cache.decoded();
  if (segment.wasteful()) {
    log_warning(
        fmt::format("{}: {} captures were guarded by an object that ended before the next call, so it runs "
                    "eagerly from now on; pass in an object that lives longer",
                    describe_place(code, segment.at()), Segment::kMaxWasted));
    return;
  }
  std::string guard =
      segment.entries().empty() ? "none" : describe_failed_guard(*segment.entries().front(), inputs, &code);
  log_warning(fmt::format("{}: {} captures and none fits, so it runs eagerly from now on; guard that fails: {}",
                          describe_place(code, segment.at()), segment.entries().size(), guard));
}

}  // namespace framejit::runtime
