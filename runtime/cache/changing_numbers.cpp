#include "runtime/cache/changing_numbers.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace framejit::runtime {
namespace {

constexpr size_t kManyValues = Segment::kMaxEntries / 2;
constexpr size_t kManyBehind = Segment::kMaxEntries / 4;  // of what an instruction made of a number that changes
constexpr size_t kSomeFloats = 2;  // and the one that is captured now: two layers with a rate of their own are no more

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

template <class See>
void each_number_in(PyObject* value, SourcePath path, const See& see) {
  if (is_number(value)) return see(std::move(path), value);
  if (!PyTuple_CheckExact(value)) return;
  path.insert(path.begin(), SourceStep{graph::SourceKind::kTupleItem, 0, nullptr});
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    path.front().index = static_cast<uint32_t>(i);
    each_number_in(PyTuple_GET_ITEM(value, i), path, see);
  }
}

// Calls `see` with the path and the value of each number that the capture has a guard on, by itself or in a tuple.
template <class ObjectOf, class See>
void each_number(const graph::Capture& capture, const ObjectOf& object_of, const See& see) {
  for (const graph::Guard& guard : capture.guards.rows())
    if (guard.kind == graph::GuardKind::kEquals)
      each_number_in(object_of(guard.object), path_of(capture.sources, guard.source, object_of), see);
}

template <class See>
void each_number(const CompiledEntry& entry, const See& see) {
  each_number(
      entry.capture(), [&](graph::ConstId id) { return entry.objects().at(id); }, see);
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

ChangingPaths& noted_at(CodeCache& cache, Segment& segment, const SourcePath& path) {
  return is_on_stack(path) ? segment.changing() : cache.changing();
}

bool changes(const Segment& segment, const SourcePath& path, const Values& values) {
  if (segment.behind_changing_number() && is_on_stack(path)) return values.size() >= kManyBehind;
  return segment.full() && values.size() >= kManyValues;
}

std::vector<std::shared_ptr<CompiledEntry>> entries_at(const Segment& segment, const SourcePaths& numbers) {
  std::vector<std::shared_ptr<CompiledEntry>> found;
  std::copy_if(segment.entries().begin(), segment.entries().end(), std::back_inserter(found),
               [&](const auto& entry) { return looks_at(*entry, numbers); });
  return found;
}

void remove_entries_at(Segment& segment, const SourcePaths& numbers) {
  for (const auto& entry : entries_at(segment, numbers)) segment.remove(entry.get());
}

// What they serve goes on being served by them, rather than by what is captured from now on, which ends earlier. A full
// segment needs room: the half that served last stays.
void keep_entries_at(Segment& segment, const SourcePaths& numbers) {
  const std::vector<std::shared_ptr<CompiledEntry>> found = entries_at(segment, numbers);
  const size_t kept = segment.full() ? found.size() / 2 : found.size();
  for (size_t i = 0; i < found.size(); ++i)
    if (i < kept)
      segment.keep_first(found[i].get());
    else
      segment.remove(found[i].get());
}

SourcePaths both(SourcePaths paths, const SourcePaths& others) {
  paths.insert(others.begin(), others.end());
  return paths;
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
  for (const SourcePath& path : changing) noted_at(cache, segment, path).left.insert(path);
  keep_entries_at(segment, changing);
}

SourcePaths known_changing_numbers(const CodeCache& cache, const Segment& segment) {
  return both(cache.changing().left, segment.changing().left);
}

SourcePaths known_number_inputs(const CodeCache& cache, const Segment& segment) {
  return both(cache.changing().inputs, segment.changing().inputs);
}

SourcePaths find_number_inputs(const CodeCache& cache, const Segment& segment) {
  SourcePaths floats;
  if (segment.entries().size() < kSomeFloats) return floats;
  for (const auto& [path, values] : values_at_paths(segment)) {
    const size_t count =
        std::count_if(values.begin(), values.end(), [](PyObject* value) { return PyFloat_CheckExact(value); });
    const ChangingPaths& noted = is_on_stack(path) ? segment.changing() : cache.changing();
    if (count >= kSomeFloats && !noted.refused.count(path)) floats.insert(path);
  }
  return floats;
}

SourcePaths guarded_by_value(const graph::Capture& capture, const ObjectPool& pool, const SourcePaths& floats) {
  SourcePaths found;
  each_number(
      capture, [&](graph::ConstId id) { return pool.at(id); },
      [&](const SourcePath& path, PyObject*) {
        if (floats.count(path)) found.insert(path);
      });
  return found;
}

void take_number_inputs(CodeCache& cache, Segment& segment, const SourcePaths& floats) {
  for (const SourcePath& path : floats) noted_at(cache, segment, path).inputs.insert(path);
}

void make_room_for_number_inputs(const CodeCache& cache, Segment& segment) {
  if (segment.full()) remove_entries_at(segment, known_number_inputs(cache, segment));
}

void refuse_number_inputs(CodeCache& cache, Segment& segment, const SourcePaths& floats) {
  for (const SourcePath& path : floats) {
    ChangingPaths& noted = noted_at(cache, segment, path);
    noted.inputs.erase(path);
    noted.refused.insert(path);
  }
}

}  // namespace framejit::runtime
