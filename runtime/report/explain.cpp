#include "runtime/report/explain.h"

#include "base/check.h"
#include "graph/number.h"
#include "graph/tensor_meta.h"

namespace framejit::runtime {

using graph::Guard;
using graph::GuardKind;
using graph::Source;
using graph::SourceId;

namespace {

constexpr size_t kLongestRepr = 80;

std::string text_of(PyObject* text) {
  const char* utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "?";
}

std::string repr_of(PyObject* obj) {
  if (!obj) return "unbound";
  if (PyDict_Check(obj)) return fmt::format("<dict of {}>", PyDict_GET_SIZE(obj));
  if (PyType_Check(obj)) return reinterpret_cast<PyTypeObject*>(obj)->tp_name;
  if (PyFunction_Check(obj)) return text_of(reinterpret_cast<PyFunctionObject*>(obj)->func_qualname);
  Ref text = Ref::steal(PyObject_Repr(obj));
  std::string result = text_of(text.get());
  if (!text) PyErr_Clear();
  if (result.size() > kLongestRepr) result = result.substr(0, kLongestRepr) + "...";
  return result;
}

void replace_all(std::string& text, std::string_view key, const std::string& value) {
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size()))
    text.replace(at, key.size(), value);
}

// Of a tensor, what a guard can look at: its numbers may be many.
std::string tensor_text(PyObject* tensor) {
  std::string text = Py_TYPE(tensor)->tp_name;
  for (const char* name : {"shape", "dtype", "device", "requires_grad"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(tensor, name));
    text += value ? fmt::format(" {}={}", name, repr_of(value.get())) : "";
  }
  PyErr_Clear();
  return text;
}

std::string facts_text(const CompiledEntry& entry, uint64_t number) {
  return graph::to_string(entry.capture().tensor_facts[number].meta);
}

// The globals of the code's own file, or those of another module; empty: no globals.
std::string globals_text(PyObject* dict, const bytecode::DecodedCode* code) {
  if (!PyDict_Check(dict)) return "";
  PyObject* name = PyDict_GetItemString(dict, "__name__");
  PyObject* file = PyDict_GetItemString(dict, "__file__");
  const bool named = name && PyUnicode_Check(name);
  const bool elsewhere =
      !file || !PyUnicode_Check(file) || (code && PyUnicode_Compare(file, code->filename.get()) != 0);
  if (named && elsewhere && PyMapping_HasKey(PyImport_GetModuleDict(), name)) return "vars(" + text_of(name) + ")";
  return PyDict_GetItemString(dict, "__builtins__") ? "globals()" : "";
}

}  // namespace

std::string describe_source(const CompiledEntry& entry, SourceId id, const bytecode::DecodedCode* code) {
  const Source& source = entry.capture().sources.at(id);
  if (source.kind == graph::SourceKind::kLocal && code && source.index < code->slots.size())
    return text_of(code->slot_name(static_cast<int32_t>(source.index)).get());
  std::string text = graph::source_text_pattern(source.kind);
  if (source.base.valid()) replace_all(text, "{b}", describe_source(entry, source.base, code));
  replace_all(text, "{i}", std::to_string(source.index));
  if (!source.object.valid()) return text;
  PyObject* object = entry.objects().at(source.object);
  replace_all(text, "{c!r}", repr_of(object));
  const std::string globals = source.kind == graph::SourceKind::kConst ? globals_text(object, code) : "";
  replace_all(text, "{c}", !globals.empty() ? globals : PyUnicode_Check(object) ? text_of(object) : repr_of(object));
  return text;
}

std::string describe_guard(const CompiledEntry& entry, size_t index, const bytecode::DecodedCode* code) {
  const auto& rows = entry.capture().guards.rows();
  if (index >= rows.size()) return "a value that the captured code uses cannot be read";
  const Guard& guard = rows[index];
  std::string text = graph::guard_text_pattern(guard.kind);
  if (guard.source.valid()) replace_all(text, "{s}", describe_source(entry, guard.source, code));
  if (guard.other.valid()) replace_all(text, "{t}", describe_source(entry, guard.other, code));
  const std::string object = guard.object.valid() ? repr_of(entry.objects().at(guard.object)) : "";
  replace_all(text, "{n}",
              guard.kind == GuardKind::kTensorMatch ? facts_text(entry, guard.number)
              : guard.kind == GuardKind::kCompares  ? to_string(graph::NumberComparison::unpacked(guard.number), object)
                                                    : std::to_string(guard.number));
  if (!guard.object.valid()) return text;
  replace_all(text, "{o!r}", object);
  replace_all(text, "{o}", object);
  return text;
}

std::string describe_failed_guard(CompiledEntry& entry, const FrameInputs& inputs, const bytecode::DecodedCode* code) {
  if (entry.of_kept_frame() != inputs.kept)
    return entry.of_kept_frame() ? "something holds the frame" : "nothing holds the frame";
  const uint32_t failed = entry.guards().failed_guard();
  std::string text = describe_guard(entry, failed, code);
  const auto& rows = entry.capture().guards.rows();
  if (failed >= rows.size() || !rows[failed].source.valid()) return text;
  PyObject* found = entry.guards().value(rows[failed].source);
  const bool of_type = rows[failed].kind == GuardKind::kTypeIs && found;
  if (rows[failed].kind == GuardKind::kTensorMatch && found) return text + ", found " + tensor_text(found);
  return text + ", found " + repr_of(of_type ? reinterpret_cast<PyObject*>(Py_TYPE(found)) : found);
}

std::string describe_place(const bytecode::DecodedCode& code, bytecode::InstrIndex at) {
  int line = at.index() < code.size() ? code.at(at).position.line : code.first_line;
  return fmt::format("{}:{} in {}", text_of(code.filename.get()), line < 0 ? code.first_line : line,
                     text_of(code.name.get()));
}

}  // namespace framejit::runtime
