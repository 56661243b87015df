#include "runtime/call/frame_gate.h"

#include <algorithm>
#include <string_view>

#include "eval_frame/hook.h"
#include "runtime/call/thread_state.h"
#include "runtime/engine.h"
#include "tracer/library_code.h"

namespace framejit::runtime {
namespace {

// A token holds the hook's in its low bits.
constexpr int kHookBits = 8;

// The functions of importlib that call importers (Lib/importlib/_bootstrap.py and _bootstrap_external.py).
const char* const kSearches[] = {"_find_spec", "_find_spec_legacy", "_get_spec", "_legacy_get_spec", "_path_hooks"};

constexpr int kWithoutHook = 2;  // as FramejitFrameHandler: for what it calls, too

class HookGate final : public FrameGate {
 public:
  int shut() override { return enter(GateState::kShut, framejit_hook_enter(PyThreadState_Get())); }
  void end_shut(int token) override { framejit_hook_leave(PyThreadState_Get(), leave(token)); }
  int open() override { return enter(GateState::kOpen, framejit_hook_pause()); }
  void end_open(int token) override { framejit_hook_resume(leave(token)); }
  std::string take_refused() override { return std::exchange(thread_state().refused, {}); }
  const std::string& refused() const override { return thread_state().refused; }

 private:
  static int enter(GateState state, int hook_token) {
    const int before = static_cast<int>(std::exchange(thread_state().gate, state));
    return before << kHookBits | hook_token;
  }
  static int leave(int token) {
    thread_state().gate = static_cast<GateState>(token >> kHookBits);
    return token & ((1 << kHookBits) - 1);
  }
};

// Dropping an object runs them, whatever code drops it: they are no part of what the C code does. A callback of a weak
// reference gets that as its argument, after `self` if it is a bound method.
bool is_finalizer(const FrameView& view) {
  if (PyUnicode_CompareWithASCIIString(view.code->co_name, "__del__") == 0) return true;
  for (int i = 0; i < std::min(view.code->co_argcount, 2); ++i)
    if (PyObject* argument = framejit_frame_argument(&view, i); argument && PyWeakref_Check(argument)) return true;
  return false;
}

// Importers of the program's look for modules that library code asks for: what importlib calls to find one, whatever it
// is. The module itself is code of the program.
bool is_importer() {
  auto* const caller = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  const Ref code = Ref::steal(caller ? PyObject_GetAttrString(caller, "f_code") : nullptr);
  if (!code) return PyErr_Clear(), false;
  const auto* of_caller = reinterpret_cast<PyCodeObject*>(code.get());
  const char* file = PyUnicode_AsUTF8(of_caller->co_filename);
  if (!file) PyErr_Clear();
  if (!file || std::string_view(file).substr(0, 17) != "<frozen importlib") return false;
  return std::any_of(std::begin(kSearches), std::end(kSearches),
                     [&](const char* name) { return PyUnicode_CompareWithASCIIString(of_caller->co_name, name) == 0; });
}

bool is_of_file(const FrameView& view, const char* function, std::string_view end) {
  if (PyUnicode_CompareWithASCIIString(view.code->co_name, function) != 0) return false;
  const char* file = PyUnicode_AsUTF8(view.code->co_filename);
  if (!file) return PyErr_Clear(), false;
  const std::string_view name(file);
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

// torch._tensor_str._str, by which all ways to a tensor's text lead: that of a tensor of the trace has no data in it.
bool writes_text_of_tensor(const FrameView& view) { return is_of_file(view, "_str", "/torch/_tensor_str.py"); }

// Whether a filter of the module warnings may want to see each warning of a category, not the first alone.
bool wants_each(PyObject* filter, PyObject* category) {
  if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5 || !PyUnicode_Check(PyTuple_GET_ITEM(filter, 0)))
    return false;
  PyObject* action = PyTuple_GET_ITEM(filter, 0);
  if (PyUnicode_CompareWithASCIIString(action, "always") != 0 && PyUnicode_CompareWithASCIIString(action, "all") != 0)
    return false;
  const int is_of_category = PyObject_IsSubclass(category, PyTuple_GET_ITEM(filter, 2));
  if (is_of_category < 0) PyErr_Clear();
  return is_of_category != 0;
}

// warnings._showwarnmsg, by which C code shows a warning (Python/_warnings.c), of one that eager would show in each
// call.
bool shows_warning_each_time(const FrameView& view) {
  if (!is_of_file(view, "_showwarnmsg", "/warnings.py")) return false;
  PyObject* message = framejit_frame_argument(&view, 0);
  const Ref category = Ref::steal(message ? PyObject_GetAttrString(message, "category") : nullptr);
  PyErr_Clear();
  PyObject* filters = PyDict_GetItemString(view.globals, "filters");
  if (!category || !filters || !PyList_Check(filters)) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i)
    if (wants_each(PyList_GET_ITEM(filters, i), category.get())) return true;
  return false;
}

// How members of enumerations, and other constants of the library's, are found in dictionaries.
bool finds_constant(const FrameView& view) {
  const bool finds = PyUnicode_CompareWithASCIIString(view.code->co_name, "__hash__") == 0 ||
                     PyUnicode_CompareWithASCIIString(view.code->co_name, "__eq__") == 0;
  return finds && is_library_namespace(view.globals);
}

std::string name_of(const FrameView& view) {
  const char* name = PyUnicode_AsUTF8(view.code->co_name);
  if (!name) PyErr_Clear();
  return name && *name ? name : "a function without a name";
}

}  // namespace

FrameGate& frame_gate() {
  static HookGate gate;
  return gate;
}

int answer_at_gate(const FrameView& view) {
  ThreadState& state = thread_state();
  if (state.gate == GateState::kOpen || framejit_is_collecting(PyThreadState_Get())) return 0;
  if (is_finalizer(view)) return kWithoutHook;
  // What the standard library and torch wrote in Python is as C code is. What it calls comes here too.
  if (engine().is_skipped(reinterpret_cast<PyObject*>(view.code)) && !writes_text_of_tensor(view) &&
      !shows_warning_each_time(view))
    return 0;
  if (finds_constant(view)) return 0;
  if (is_importer()) return kWithoutHook;
  if (state.refused.empty()) state.refused = name_of(view);
  // BaseException itself: `except Exception` in library code must not swallow it.
  PyErr_SetString(PyExc_BaseException, "framejit: the capture ends");
  return 1;
}

}  // namespace framejit::runtime
