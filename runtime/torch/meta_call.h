// Asks LibTorch's Meta kernel what an operator returns. The slow way (microseconds to a millisecond, where the kernel
// is written in Python), right for each operator that has one.
#pragma once

#include "runtime/torch/recorder.h"

namespace framejit {
class FrameGate;
}

namespace framejit::torchlib {

// Where Python code is kept out of a capture, Meta kernels in Python are let through. Null: it is not.
void set_meta_call_gate(FrameGate* gate);
// Null before the first capture. To be asked with the GIL.
FrameGate* gate_for_program_code();

class MetaCall {
 public:
  // Reads the arguments on the stack, which stay there. `reals_too`: real tensors are described as fakes are; else they
  // are small constants, whose data a kernel may look at.
  MetaCall(const OpEntry& op, const torch::jit::Stack& stack, size_t base, bool reals_too);

  // Raises what the kernel raises; a trace stop where there is no kernel.
  void run();

  // Fills in metas, alias facts and extra dispatch keys of the results, in the order of the graph's results.
  void results(graph::InferOutput& metas, std::vector<c10::DispatchKeySet>& keys) const;
  // A result that is no tensor, as the kernel returned it.
  const c10::IValue& returned(size_t index) const { return stack_[index]; }
  // Arguments whose sizes or strides the kernel changed, with what they are now.
  template <class F>
  void for_each_resized(F&& f) const {
    for (const auto& [tensor, meta] : metas_)
      if (tensor->sizes() != meta.sizes() || tensor->strides() != meta.strides()) f(tensor, meta);
  }

 private:
  c10::IValue convert(const c10::IValue& value);
  at::Tensor meta_tensor(const at::Tensor& tensor);
  c10::Device result_device() const;
  void add_result(const ReturnFact& fact, const at::Tensor& tensor, graph::InferOutput& metas,
                  std::vector<c10::DispatchKeySet>& keys) const;

  const OpEntry& op_;
  const torch::jit::Stack& arguments_;
  size_t base_;
  bool reals_too_;
  torch::jit::Stack stack_;
  std::vector<std::pair<c10::TensorImpl*, at::Tensor>> metas_;
};

}  // namespace framejit::torchlib
