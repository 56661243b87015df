// Calls by which a program takes part in autograd.
#include "tracer/simulator.h"

namespace framejit {

void Simulator::stop_before_gradient(const FailedGradient& failed, const std::string& why_not) {
  const GradientMark* found = nullptr;
  for (const GradientMark& mark : gradient_marks_)
    if (mark.number <= failed.number) found = &mark;
  if (!found || found->count == 0) return;
  throw StopTrace{TraceStop{stop_reason_by_name(failed.stop_reason_name), why_not, {}}, BreakPoint{found->count},
                  /*approximate=*/true};
}

}  // namespace framejit
