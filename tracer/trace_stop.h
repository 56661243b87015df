// TraceStop: an expected end of a capture, with a reason from the table and the place in the user's program.
#pragma once

#include <cstdint>
#include <string>

#include "bytecode/decoded_code.h"
#include "graph/ids.h"

namespace framejit {

enum class StopReason : uint16_t {
#define STOP(name, text, hint, may_reach_python) k##name,
#include "tracer/stop_reasons.def"
#undef STOP
};

struct StopReasonInfo {
  const char* name;
  const char* text;
  const char* hint;
  bool may_reach_python;
};

const StopReasonInfo& stop_reason_info(StopReason reason);
// The reason of that name, or kUnsupportedValue.
StopReason stop_reason_by_name(const std::string& name);

struct TraceStop {
  StopReason reason = StopReason::kUnsupportedValue;
  std::string detail;
  std::string location;  // as stop_location
};

// A node without which a graph could be run as eager would run it: the next pass stops where it would be recorded.
struct RefusedNode {
  graph::NodeId id;      // invalid: there is none
  std::string why = {};  // empty: its gradient cannot be recorded
};

// file:line
std::string stop_location(const bytecode::DecodedCode& code, bytecode::InstrIndex at);

}  // namespace framejit
