// What of the thread's state decides what an operator makes, beside its arguments: where a program changes it inside of
// a capture, the operators run under it as they were recorded.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <optional>

#include "graph/graph.h"
#include "runtime/torch/convert.h"

namespace framejit::torchlib {

// Whether tensors made from here on are inference tensors. Dispatch stays as it is, unlike under c10::InferenceMode.
class InferenceBit {
 public:
  explicit InferenceBit(bool on) : before_(c10::AutogradState::get_tls_state().get_inference_mode()) { set(on); }
  ~InferenceBit() { set(before_); }
  InferenceBit(const InferenceBit&) = delete;
  InferenceBit& operator=(const InferenceBit&) = delete;

 private:
  static void set(bool on) { c10::AutogradState::get_tls_state().set_inference_mode(on); }
  bool before_;
};

class DefaultDtype {
 public:
  explicit DefaultDtype(c10::ScalarType type) : before_(c10::get_default_dtype()) {
    if (type != c10::typeMetaToScalarType(before_)) c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~DefaultDtype() {
    if (c10::get_default_dtype() != before_) c10::set_default_dtype(before_);
  }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;

 private:
  caffe2::TypeMeta before_;
};

inline graph::NodeState operator_state_now() {
  return {c10::AutogradState::get_tls_state().get_inference_mode(),
          to_dtype(c10::typeMetaToScalarType(c10::get_default_dtype()))};
}

class OperatorStateScope {
 public:
  explicit OperatorStateScope(const graph::NodeState& state) {
    if (state.inference) inference_.emplace(*state.inference);
    if (state.default_dtype) dtype_.emplace(from_dtype(*state.default_dtype));
  }

 private:
  std::optional<InferenceBit> inference_;
  std::optional<DefaultDtype> dtype_;
};

}  // namespace framejit::torchlib
