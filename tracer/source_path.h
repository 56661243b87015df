// Where a value is read, comparable between captures of one code object: each has a table of sources of its own.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "base/py_ref.h"
#include "graph/source.h"

namespace framejit {

struct SourceStep {
  graph::SourceKind kind;
  uint32_t index;
  PyObject* object;  // compared only, and may be gone: a path that is taken for another costs a break

  friend bool operator==(const SourceStep& a, const SourceStep& b) {
    return a.kind == b.kind && a.index == b.index && a.object == b.object;
  }
  friend bool operator<(const SourceStep& a, const SourceStep& b) {
    return std::tie(a.kind, a.index, a.object) < std::tie(b.kind, b.index, b.object);
  }
};

using SourcePath = std::vector<SourceStep>;  // innermost first
using SourcePaths = std::set<SourcePath>;

template <class ObjectOf>
SourcePath path_of(const graph::SourceTable& sources, graph::SourceId id, const ObjectOf& object_of) {
  SourcePath path;
  for (; id.valid(); id = sources.at(id).base) {
    const graph::Source& source = sources.at(id);
    path.push_back({source.kind, source.index, source.object.valid() ? object_of(source.object) : nullptr});
  }
  return path;
}

}  // namespace framejit
