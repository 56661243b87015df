// Calls and the making of functions.
#include "tracer/frame_builtins.h"
#include "tracer/library_code.h"
#include "tracer/ops.h"

namespace framejit::ops {

namespace {

void pop_keywords(SimFrame& frame, CallArgs& args, PyObject* names, size_t count) {
  size_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
  args.positional.reserve(count + 1);  // pop_callable may put one before them
  args.positional.resize(count);
  for (size_t i = count; i-- > 0;) args.positional[i] = frame.pop();
  for (size_t i = 0; i < keywords; ++i)
    args.keywords.emplace_back(Ref::borrow(PyTuple_GET_ITEM(names, i)),
                               std::move(args.positional[count - keywords + i]));
  args.positional.resize(count - keywords);
}

// Pops the callable in its layout; the method form gives its self as first argument.
SymValue pop_callable(SimFrame& frame, bytecode::CallLayout layout, CallArgs& args) {
  if (layout == bytecode::CallLayout::kPlain) return frame.pop();
  SymValue upper = frame.pop(), lower = frame.pop();
  bool above = layout == bytecode::CallLayout::kNullAbove;
  SymValue& null_or_self = above ? upper : lower;
  if (above) {
    if (null_or_self.null()) return lower;
    args.positional.insert(args.positional.begin(), upper);
    return lower;
  }
  if (lower.null()) return upper;
  args.positional.insert(args.positional.begin(), upper);
  return lower;
}

}  // namespace

void handle_Call(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  CallArgs args;
  Ref names;
  if (instr.extra == bytecode::kKeywordsOnStack)
    names = frame.pop().obj;
  else if (instr.extra != bytecode::kNoKeywords)
    names = Ref::borrow(frame.code->const_at(instr.extra));
  pop_keywords(frame, args, names.get(), instr.arg);
  SymValue callable = pop_callable(frame, instr.layout(), args);
  frame.push(sim.call(std::move(callable), std::move(args), /*plain=*/true));
}

// Mostly the compiler has made a dictionary of them.
static Ref keyword_items(Simulator& sim, const SymValue& mapping) {
  if (PyDict_CheckExact(mapping.get())) return mapping.obj;
  // As dict_merge: who iterates as dict does is read without being asked.
  if (PyDict_Check(mapping.get()) && Py_TYPE(mapping.get())->tp_iter == PyDict_Type.tp_iter) {
    if (sim.world().find(mapping.get())) return sim.snapshot_dict_items(mapping.get());
    Ref items = sim.check(PyDict_New());
    sim.check_status(PyDict_Update(items.get(), mapping.get()));
    return items;
  }
  if (PyDict_Check(mapping.get())) return sim.snapshot_dict(mapping);
  if (!sim.find_attr(mapping, interned("keys")))
    sim.stop(StopReason::kUnsupportedValue, "keyword arguments from what is no mapping");
  return with_mapping_errors(
      sim, [&] { return sim.call(SymValue::borrow(reinterpret_cast<PyObject*>(&PyDict_Type)), {mapping}).obj; });
}

void handle_CallEx(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  CallArgs args;
  if (instr.arg & 1) {
    SymValue mapping = frame.pop();
    Ref items = keyword_items(sim, mapping);
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(items.get(), &pos, &key, &value);) {
      // Whether that is an error, and in whose words, is up to what is called.
      if (!PyUnicode_Check(key)) sim.stop(StopReason::kUnsupportedValue, "a keyword that is no text");
      args.keywords.emplace_back(Ref::borrow(key), SymValue::borrow(value));
    }
  }
  SymValue positional = frame.pop();
  args.positional = sim.collect_starred(std::move(positional));
  CallArgs unused;
  SymValue callable = pop_callable(frame, instr.layout(), unused);
  FJ_CHECK(unused.positional.empty(), "a call with unpacked arguments in method form");
  frame.push(sim.call(std::move(callable), std::move(args), /*plain=*/true));
}

static void set_part(Simulator& sim, PyObject* function, int part, SymValue value) {
  PyObject* obj = sim.realise(value);
  int status = 0;
  switch (part) {
    case bytecode::kDefaults:
      status = PyFunction_SetDefaults(function, obj);
      break;
    case bytecode::kKwDefaults:
      status = PyFunction_SetKwDefaults(function, obj);
      break;
    case bytecode::kClosure:
      status = PyFunction_SetClosure(function, obj);
      break;
    case bytecode::kAnnotations:
      status = PyObject_SetAttrString(function, "__annotations__", obj);
      // 3.10 and later hand the annotations over as a tuple, and only the interpreter may keep it so.
      if (status < 0 && PyTuple_CheckExact(obj)) {
        PyErr_Clear();
        Ref dict = sim.check(PyDict_New());
        for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(obj); i += 2)
          PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(obj, i), PyTuple_GET_ITEM(obj, i + 1));
        status = PyObject_SetAttrString(function, "__annotations__", dict.get());
      }
      break;
  }
  sim.check_status(status);
}

void handle_MakeFunction(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue name = instr.aux & 1 ? frame.pop() : SymValue();
  SymValue code = frame.pop();
  Ref function = sim.check(PyFunction_NewWithQualName(code.get(), frame.globals.get(), name.get()));
  // The order on the stack, from the top: closure, annotations, keyword defaults, defaults.
  for (int part : {bytecode::kClosure, bytecode::kAnnotations, bytecode::kKwDefaults, bytecode::kDefaults})
    if (instr.arg & part) set_part(sim, function.get(), part, frame.pop());
  sim.made_constants().insert(function.get());
  sim.keep(function);
  frame.push(SymValue(std::move(function)));
}

void handle_SetFunctionAttribute(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue function = frame.pop();
  set_part(sim, function.get(), instr.arg, frame.pop());
  frame.push(std::move(function));
}

void handle_IntrinsicUnary(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  switch (static_cast<bytecode::UnaryIntrinsic>(instr.arg)) {
    case bytecode::UnaryIntrinsic::kStopIterationError: {
      PyObject* exception = frame.peek(1).get();
      if (PyErr_GivenExceptionMatches(exception, PyExc_StopIteration))
        frame.peek(1) =
            SymValue(sim.check(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration")));
      return;
    }
    case bytecode::UnaryIntrinsic::kListToTuple:
      handle_ListToTuple(sim, frame, instr);
      return;
    case bytecode::UnaryIntrinsic::kUnaryPositive:
      frame.push(sim.unary(bytecode::UnaryKind::kPositive, frame.pop()));
      return;
    default:
      sim.stop(StopReason::kUnsupportedInstruction, fmt::format("intrinsic {}", instr.arg));
  }
}

void handle_IntrinsicBinary(Simulator& sim, SimFrame&, const Instruction& instr) {
  sim.stop(StopReason::kUnsupportedInstruction, fmt::format("binary intrinsic {}", instr.arg));
}

void handle_ReturnValue(Simulator&, SimFrame& frame, const Instruction&) {
  frame.result = frame.pop();
  frame.returned = true;
}

void handle_ReturnConst(Simulator&, SimFrame& frame, const Instruction& instr) {
  frame.result = SymValue::borrow(frame.code->const_at(instr.arg));
  frame.returned = true;
}

static bool is_of_torch(std::string_view module) { return module == "torch" || module.substr(0, 6) == "torch."; }

// The first import of a module runs code. What torch imports of itself is imported between two passes, outside of the
// recording: it would run some time in any case, and nobody can tell when.
[[noreturn]] static void stop_at_import(Simulator& sim, const SimFrame& frame, PyObject* absolute) {
  const std::string name = PyUnicode_AsUTF8(absolute);
  StopTrace stopped{TraceStop{StopReason::kImport, name, sim.location_text()}, sim.current_break_point()};
  if (is_of_torch(name) && is_of_torch(module_name(frame.globals.get()))) stopped.import = name;
  throw stopped;
}

// `from ..name`: what it is called in sys.modules.
static Ref resolved_name(Simulator& sim, const SimFrame& frame, PyObject* name, int level) {
  std::optional<SymValue> package = sim.read_namespace(frame.globals.get(), interned("__package__"));
  if (!package) sim.stop(StopReason::kImport, "a relative import without __package__");
  Ref util = sim.check(PyImport_ImportModule("importlib.util"));
  Ref dotted = sim.check(PyUnicode_FromFormat("%s%U", std::string(level, '.').c_str(), name));
  return sim.check(PyObject_CallMethod(util.get(), "resolve_name", "OO", dotted.get(), sim.realise(*package)));
}

// What sys.modules has, guarded; not what it lacks.
static SymValue imported(Simulator& sim, const SimFrame& frame, PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  if (!PyDict_GetItemWithError(modules, name)) stop_at_import(sim, frame, name);
  std::optional<SymValue> module = sim.read_namespace(modules, name);
  if (!module || sim.realise(*module) == Py_None) sim.stop(StopReason::kImport, PyUnicode_AsUTF8(name));
  return std::move(*module);
}

// Imports of what is imported already.
void handle_ImportName(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  SymValue from = frame.pop(), level = frame.pop();
  PyObject* name = frame.code->name_at(instr.arg);
  if (frame.builtins.get() != own_builtins()) sim.stop(StopReason::kForeignBuiltins, "__import__");
  std::optional<SymValue> import = sim.read_namespace(own_builtins(), interned("__import__"));
  if (!import || !PyCFunction_Check(sim.realise(*import)))
    sim.stop(StopReason::kImport, "builtins.__import__ is not the interpreter's own");
  const int depth = static_cast<int>(PyLong_AsLong(level.get()));
  Ref absolute = depth != 0 ? resolved_name(sim, frame, name, depth) : Ref::borrow(name);
  SymValue module = imported(sim, frame, absolute.get());
  Ref found = sim.check(PyImport_ImportModuleLevelObject(name, frame.globals.get(), Py_None, from.get(), depth));
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
  if (sim.realise(from) == Py_None && dot > 0)  // `import a.b` gives a
    module = imported(sim, frame, sim.keep(sim.check(PyUnicode_Substring(name, 0, dot))));
  if (module.get() != found.get()) sim.stop(StopReason::kImport, PyUnicode_AsUTF8(absolute.get()));
  frame.push(std::move(module));
}

void handle_ImportFrom(Simulator& sim, SimFrame& frame, const Instruction& instr) {
  PyObject* name = frame.code->name_at(instr.arg);
  SymValue module = frame.peek(1);
  auto value = sim.find_attr(module, name);
  if (!value) sim.stop(StopReason::kImport, PyUnicode_AsUTF8(name));
  frame.push(std::move(*value));
}

}  // namespace framejit::ops
