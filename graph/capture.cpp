#include "graph/capture.h"

#include <algorithm>
#include <unordered_set>

namespace framejit::graph {

void add_guards_of(Capture& capture, const Capture& other) {
  std::vector<SourceId> renamed;
  for (size_t i = 0; i < other.sources.size(); ++i) {
    Source source = other.sources.at(SourceId(i));
    if (source.base.valid()) source.base = renamed[source.base.index()];
    renamed.push_back(capture.sources.add(source));
  }
  capture.classes.insert(capture.classes.end(), other.classes.begin(), other.classes.end());
  std::unordered_set<uint32_t> tensors;
  uint64_t apart_sets = 0;
  for (const Guard& row : capture.guards.rows()) {
    if (row.kind == GuardKind::kTensorMatch) tensors.insert(row.source.value);
    if (row.kind == GuardKind::kApart) apart_sets = std::max(apart_sets, row.number + 1);
  }
  for (Guard row : other.guards.rows()) {
    if (row.source.valid()) row.source = renamed[row.source.index()];
    if (row.other.valid()) row.other = renamed[row.other.index()];
    if (row.kind == GuardKind::kTensorMatch) {
      if (!tensors.insert(row.source.value).second) continue;
      capture.tensor_facts.push_back(other.tensor_facts[row.number]);
      row.number = capture.tensor_facts.size() - 1;
    }
    if (row.kind == GuardKind::kApart) row.number += apart_sets;
    capture.guards.add(row);
  }
}

}  // namespace framejit::graph
