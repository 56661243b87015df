// What of the thread's state decides what an operator makes, beside its arguments: where a program changes it inside of
// a capture, the operators run under it as they were recorded.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

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

struct OperatorState {
  std::optional<bool> inference;  // none: as where the graph runs
  std::optional<c10::ScalarType> default_dtype;

  static OperatorState now() {
    return {c10::AutogradState::get_tls_state().get_inference_mode(),
            c10::typeMetaToScalarType(c10::get_default_dtype())};
  }
  friend bool operator==(const OperatorState& a, const OperatorState& b) {
    return a.inference == b.inference && a.default_dtype == b.default_dtype;
  }
};

class OperatorStateScope {
 public:
  explicit OperatorStateScope(const OperatorState& state) {
    if (state.inference) inference_.emplace(*state.inference);
    if (state.default_dtype) dtype_.emplace(*state.default_dtype);
  }

 private:
  std::optional<InferenceBit> inference_;
  std::optional<DefaultDtype> dtype_;
};

// Of a graph's nodes, in their order. Nodes before the first change have the state in which the graph runs.
class OperatorStates {
 public:
  bool empty() const { return changes_.empty(); }
  void change(size_t node_count, const OperatorState& state) { changes_.emplace_back(node_count, state); }
  void append(const OperatorStates& later) {
    changes_.insert(changes_.end(), later.changes_.begin(), later.changes_.end());
  }
  OperatorState of(size_t node) const {
    OperatorState state;
    for (const auto& [first, changed] : changes_)
      if (first <= node) state = changed;
    return state;
  }

 private:
  std::vector<std::pair<size_t, OperatorState>> changes_;  // the first node, and the state from there on
};

}  // namespace framejit::torchlib
