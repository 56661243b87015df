#include "tracer/trace_stop.h"

#include <fmt/format.h>

namespace framejit {
namespace {

const StopReasonInfo kReasons[] = {
#define STOP(name, text, hint, may_reach_python) {#name, text, hint, may_reach_python != 0},
#include "tracer/stop_reasons.def"
#undef STOP
};

}  // namespace

const StopReasonInfo& stop_reason_info(StopReason reason) { return kReasons[static_cast<size_t>(reason)]; }

StopReason stop_reason_by_name(const std::string& name) {
  for (size_t i = 0; i < std::size(kReasons); ++i)
    if (name == kReasons[i].name) return static_cast<StopReason>(i);
  return StopReason::kUnsupportedValue;
}

std::string stop_location(const bytecode::DecodedCode& code, bytecode::InstrIndex at) {
  return fmt::format("{}:{}", PyUnicode_AsUTF8(code.filename.get()), code.at(at).position.line);
}

}  // namespace framejit
