// A list of operators with everything about them resolved: what runs when a graph is called.
//
// Registers are one at::Tensor for each value of the graph. Steps run below autograd, ADInplaceOrView and autocast:
// what these had to say is in the graph. A register is emptied by its last use.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/number.h"
#include "graph/number_order.h"
#include "runtime/torch/op_entry.h"
#include "runtime/torch/operands.h"
#include "runtime/torch/operator_state.h"
#include "runtime/torch/own_kernels.h"

namespace framejit::torchlib {

class ControlFlowPlan;
class FusedStep;
class UndoLog;
class UndoPlan;
class ViewStep;

enum class PlanKind : uint8_t {
  kBelowAutograd,
  kBackward,      // the same, and the inputs' registers are the run's own: emptied by their last use as well
  kWithAutograd,  // to differentiate through: the caller runs it with autograd's keys in force
};

class Plan {
 public:
  Plan() = default;
  // `keep`: values that must be in their registers after run(). `skip`: nodes that are left out, by index; may be
  // empty. `fused`: kernels that run in the place of their nodes. `outside`: what the caller sees to; see
  // rests_on_apart().
  Plan(const graph::Graph& graph, std::span<const graph::ValueId> keep, const ConstantPool& constants,
       const std::vector<bool>& skip = {}, PlanKind kind = PlanKind::kBelowAutograd,
       const std::vector<std::shared_ptr<const FusedStep>>& fused = {},
       graph::OutsideMemory outside = graph::OutsideMemory::kMayOverlap, Numbers numbers = Numbers::kToTheBit);

  size_t register_count() const { return register_count_; }
  // Where the tensor of a value is: values that are the same tensor share a register.
  uint32_t register_of(graph::ValueId value) const { return canonical_[value.index()]; }
  bool empty() const { return steps_.empty(); }
  // Whether the order of the steps is right only where what the graph writes of its inputs is apart from the others.
  bool rests_on_apart() const { return rests_on_apart_; }
  size_t step_count() const { return steps_.size(); }
  // The last of the step's nodes.
  graph::NodeId step_node(size_t step) const { return steps_[step].node; }
  std::span<const graph::NodeId> step_nodes(size_t step) const;
  // Registers whose versions the step may bump.
  const std::vector<uint32_t>& step_bumps(size_t step) const { return steps_[step].written; }

  // What run() tells: the step that runs, the failed one if it throws. `undo` may be null.
  struct Progress {
    size_t step = 0;
    const UndoPlan* undo = nullptr;
    UndoLog* log = nullptr;
    // Where set, a result that is laid out or placed otherwise than this graph says is an error.
    const graph::Graph* expected = nullptr;
    bool is_wrong = false;  // that is what was thrown
  };

  // Registers of the graph's inputs are filled in. Throws what an operator throws.
  void run(at::Tensor* registers) const;
  void run(at::Tensor* registers, Progress& progress) const;
  // The steps of these nodes, in a graph whose nodes all run in the same state. `after` each, if it is not null.
  using AfterNode = std::function<void(graph::NodeId)>;
  void run_nodes(at::Tensor* registers, size_t first_node, size_t end_node, const AfterNode& after) const;

 private:
  struct Source {
    uint16_t arg;
    bool last_use;
    uint32_t reg;
    bool number = false;       // of the graph, in the place of a Scalar or of another number's operand
    bool from_tensor = false;  // of those: no step of this plan computes it
  };
  struct ListSource {
    uint16_t arg;
    bool scalars = false;      // numbers of the graph
    bool from_tensor = false;  // as Source
    bool optional;
    std::vector<int64_t> regs;  // -1: None
  };
  struct Step {
    const OpEntry* op = nullptr;
    OwnKernel own_kernel = nullptr;
    graph::NodeId node;
    std::vector<c10::IValue> arguments;  // tensors from registers are left undefined
    std::vector<Source> tensors;
    std::vector<ListSource> lists;
    std::vector<uint32_t> results;          // registers, kNoRegister: dropped
    std::vector<uint32_t> dead;             // emptied after the step
    std::vector<uint32_t> written;          // their versions are bumped
    std::vector<uint32_t> written_args;     // beside `written`: the argument that is the tensor, or a view of it
    bool constant = false;                  // framejit.constant
    std::optional<graph::NumberOp> number;  // the places of its tensors are those of its operands
    bool as_tensor = false;                 // the number is read in the place of a tensor, or kept
    std::shared_ptr<const ControlFlowPlan> control_flow;
    std::shared_ptr<const FusedStep> fused;
    std::shared_ptr<const ViewStep> views;
    bool clone = false;  // lift_fresh of a constant that somebody could tell from a new tensor
  };
  static constexpr uint32_t kNoRegister = 0xffffffffu;

  void find_canonical(const graph::Graph& graph);
  void add_written(const graph::Graph& graph, graph::ValueId id, Step& step) const;
  Step make_step(const graph::Graph& graph, const graph::Node& node, const ConstantPool& constants) const;
  Step make_control_flow_step(const graph::Graph& graph, const graph::Node& node, const ConstantPool& constants) const;
  static void run_control_flow(const Step& step, at::Tensor* registers);
  Step make_number_step(const graph::Node& node, graph::NumberOp op) const;
  static void run_number(const Step& step, at::Tensor* registers, double* numbers);
  Step make_fused_step(const graph::Graph& graph, std::shared_ptr<const FusedStep> fused) const;
  static void bump_versions(const Step& step, const at::Tensor* registers);
  static void run_fused(const Step& step, at::Tensor* registers);
  static bool run_views(const Step& step, at::Tensor* registers);
  void find_last_uses(const graph::Graph& graph, std::span<const graph::ValueId> keep);
  void run_step(const Step& step, at::Tensor* registers, double* numbers, torch::jit::Stack& stack,
                Progress* progress) const;
  static void require_as_expected(const Step& step, const at::Tensor* registers, Progress& progress);
  static void call_custom(const Step& step, torch::jit::Stack& stack);
  static void call_counted(const Step& step, at::Tensor* registers, torch::jit::Stack& stack);

  // From one step on, up to the next such step.
  struct StateChange {
    size_t step;
    graph::NodeState state;
  };
  static double number_of(const Source& source, const at::Tensor* registers, const double* numbers);
  void find_number_tensors(std::span<const graph::ValueId> keep);
  void put_numbers_first(const graph::Graph& graph, const std::vector<std::shared_ptr<const FusedStep>>& fused,
                         graph::OutsideMemory outside);
  void add_state_changes(const graph::Graph& graph);

  bool is_below_autograd() const { return kind_ != PlanKind::kWithAutograd; }

  // Below autograd a detached tensor is the tensor, unless one of the two may get other sizes.
  bool is_left_out(const graph::Node& node) const;

  PlanKind kind_ = PlanKind::kBelowAutograd;
  Numbers numbers_ = Numbers::kToTheBit;
  bool keeps_detached_ = false;
  bool has_numbers_ = false;
  bool rests_on_apart_ = false;
  std::vector<StateChange> state_changes_;
  std::vector<Step> steps_;
  std::vector<uint32_t> canonical_;
  size_t register_count_ = 0;
};

// Scope in which operators go straight to the kernels of their devices.
class BelowAutograd {
 public:
  BelowAutograd();
  ~BelowAutograd();
  BelowAutograd(const BelowAutograd&) = delete;
  BelowAutograd& operator=(const BelowAutograd&) = delete;
  // The thread's dispatch state outside of the innermost such scope; null outside of all.
  static const c10::impl::LocalDispatchKeySet* outside();

 private:
  c10::impl::LocalDispatchKeySet before_;
  const BelowAutograd* outer_;
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace framejit::torchlib
