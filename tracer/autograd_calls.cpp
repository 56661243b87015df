// Calls by which a program takes part in autograd, and operators whose code is the program's.
#include "tracer/simulator.h"

namespace framejit {

// Custom operators, and gradients that cannot be recorded

void Simulator::note_custom_operator() {
  if (!first_custom_operator_) first_custom_operator_ = current_break_point();
}

void Simulator::require_unobserved_operators() {
  if (!first_custom_operator_ || (!capture_->has_handlers && capture_->effects.empty())) return;
  throw StopTrace{
      TraceStop{StopReason::kUnknownCall,
                "a custom operator among effects of the program, or in code that handles exceptions", location_text()},
      *first_custom_operator_};
}

void Simulator::stop_before_gradient(const FailedGradient& failed, const std::string& why_not) {
  const GradientMark* found = nullptr;
  for (const GradientMark& mark : gradient_marks_)
    if (mark.number <= failed.number) found = &mark;
  if (!found || found->count == 0) return;
  throw StopTrace{TraceStop{stop_reason_by_name(failed.stop_reason_name), why_not, {}}, BreakPoint{found->count},
                  /*approximate=*/true};
}

}  // namespace framejit
