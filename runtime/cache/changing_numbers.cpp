#include "runtime/cache/changing_numbers.h"

#include <algorithm>
#include <map>

namespace framejit::runtime {
namespace {

constexpr size_t kManyValues = Segment::kMaxEntries / 2;
constexpr size_t kManyBehind = Segment::kMaxEntries / 4;  // of what an instruction made of a number that changes

using Values = std::vector<PyObject*>;
using ValuesAtPaths = std::map<SourcePath, Values>;

bool is_number(PyObject* obj) { return PyLong_CheckExact(obj) || PyFloat_CheckExact(obj); }

// No code of the program runs: both are exactly of a type of the interpreter.
bool are_equal(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

void add_value(Values& values, PyObject* value) {
  if (std::none_of(values.begin(), values.end(), [&](PyObject* known) { return are_equal(known, value); }))
    values.push_back(value);
}

// Calls `see` with the path and the value of each number that the entry has a guard on.
template <class See>
void each_number(const CompiledEntry& entry, const See& see) {
  const graph::Capture& capture = entry.capture();
  auto object_of = [&](graph::ConstId id) { return entry.objects().at(id); };
  for (const graph::Guard& guard : capture.guards.rows())
    if (guard.kind == graph::GuardKind::kEquals && is_number(object_of(guard.object)))
      see(path_of(capture.sources, guard.source, object_of), object_of(guard.object));
}

bool looks_at(const CompiledEntry& entry, const SourcePaths& numbers) {
  bool found = false;
  each_number(entry, [&](const SourcePath& path, PyObject*) { found = found || numbers.count(path) != 0; });
  return found;
}

ValuesAtPaths values_at_paths(const Segment& segment) {
  ValuesAtPaths found;
  for (const auto& entry : segment.entries())
    each_number(*entry, [&](SourcePath path, PyObject* value) { add_value(found[std::move(path)], value); });
  return found;
}

// The operand stack holds something else in each segment.
bool is_on_stack(const SourcePath& path) { return path.back().kind == graph::SourceKind::kStack; }

bool changes(const Segment& segment, const SourcePath& path, const Values& values) {
  if (segment.behind_changing_number() && is_on_stack(path)) return values.size() >= kManyBehind;
  return segment.full() && values.size() >= kManyValues;
}

}  // namespace

SourcePaths find_changing_numbers(const Segment& segment) {
  const ValuesAtPaths found = values_at_paths(segment);
  SourcePaths changing;
  for (const auto& [path, values] : found)
    if (changes(segment, path, values)) changing.insert(path);
  return changing;
}

bool may_learn_changing_numbers(const Segment& segment) {
  return segment.full() || (segment.behind_changing_number() && segment.entries().size() >= kManyBehind);
}

void learn_changing_numbers(CodeCache& cache, Segment& segment) {
  const SourcePaths changing = find_changing_numbers(segment);
  for (const SourcePath& path : changing) (is_on_stack(path) ? segment.changing() : cache.changing()).insert(path);
  const std::vector<std::shared_ptr<CompiledEntry>> entries = segment.entries();
  for (const auto& entry : entries)
    if (looks_at(*entry, changing)) segment.remove(entry.get());
}

SourcePaths known_changing_numbers(const CodeCache& cache, const Segment& segment) {
  SourcePaths known = cache.changing();
  known.insert(segment.changing().begin(), segment.changing().end());
  return known;
}

}  // namespace framejit::runtime
