// What the runtime knows, as plain Python data for the package's reports.
#pragma once

#include "base/py_ref.h"
#include "runtime/cache/code_cache.h"
#include "runtime/stats.h"

namespace framejit::runtime {

// A list of dicts, one per entry and one per segment that runs eagerly, by instruction, then those of other code that
// ran from captures while the function was called: "graph", "backward" (str or None), "ops", "guards" (list of str),
// "location", "exit" ("return", "break" or "eager"), "reason", "detail", "stop_location", "hits", "capture_s", "lines"
// (list of (file, line), see Engine::notes_lines), "sources" (list of str: where each input is read), "program" (a
// framejit.Graph, or None), and "inputs", "outputs" and "nodes", see graph_data.h. Null with a Python error; so all
// below.
Ref capture_records(const CodeCache& cache);
// Those of one entry, and of a segment that runs eagerly.
Ref entry_record(const CompiledEntry& entry, const CodeCache& cache, const Segment& segment);
Ref eager_record(const CodeCache& cache, const Segment& segment);
// The newest twin, or the original code where there is none. `cache` may be null.
Ref code_listing(CodeCache* cache, PyObject* callable);
Ref stats_record(const Stats& stats);
// name -> (text, hint)
Ref stop_reason_records();

}  // namespace framejit::runtime
