#include "runtime/cache/module_state.h"

namespace framejit::runtime {
namespace {

using graph::Source;
using graph::SourceKind;

bool is_key(const Source& source, const ObjectPool& pool, const char* name) {
  PyObject* key = source.kind == SourceKind::kDictItem ? pool.at(source.object) : nullptr;
  return key && PyUnicode_CheckExact(key) && PyUnicode_CompareWithASCIIString(key, name) == 0;
}

}  // namespace

std::vector<bool> module_state(const graph::Capture& capture, const ObjectPool& pool) {
  const graph::SourceTable& sources = capture.sources;
  std::vector<bool> found;
  for (graph::SourceId id : capture.input_sources) {
    const Source& source = sources.at(id);
    found.push_back(false);
    if (source.kind != SourceKind::kDictItem) continue;
    const Source& dict = sources.at(source.base);
    if (!is_key(dict, pool, "_parameters") && !is_key(dict, pool, "_buffers")) continue;
    found.back() = sources.at(dict.base).kind == SourceKind::kInstanceDict;
  }
  return found;
}

}  // namespace framejit::runtime
