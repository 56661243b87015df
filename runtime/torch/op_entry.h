// What the recorder and the executor know of one LibTorch operator, worked out from its schema once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "graph/op.h"
#include "runtime/torch/own_kernels.h"

namespace framejit::torchlib {

// By the type in the schema. Only for tensors does it matter whether None is allowed: for some kernels an undefined
// tensor is not the same.
enum class ArgKind : uint8_t {
  kTensor,
  kOptionalTensor,
  kTensorList,
  kOptionalTensorList,
  kInt,
  kDType,
  kLayout,
  kMemoryFormat,
  kOptionalScalars,  // a list of Scalar?
  kOther,            // the tag of the value tells
};

struct ReturnFact {
  bool is_tensor = false;
  bool is_tensor_list = false;
  int16_t alias_arg = -1;  // the argument whose storage it shares
  bool is_same = false;    // it is that argument, written
};

// Who counts a write in the version counters of the tensors that an operator writes.
enum class WriteCount : uint8_t {
  kDispatcher,  // the operator's ADInplaceOrView kernel
  kKernel,      // the operators that its kernel calls, as _foreach_add_ does: once, not at all, or often
  kNobody,      // batch norm leaves the versions of its statistics
};

struct OpEntry {
  explicit OpEntry(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle;
  graph::OpId id;
  const graph::OpInfo* info;
  std::vector<ArgKind> args;
  std::vector<ReturnFact> returns;
  std::vector<uint16_t> written_args;
  WriteCount write_count = WriteCount::kDispatcher;
  int16_t device_arg = -1;
  int16_t layout_arg = -1;  // of factories: what layout they give
  const OwnKernelRow* own_kernel = nullptr;
  bool native = false;         // graph/ has a rule that infers its results
  bool composite = false;      // decomposed by LibTorch into other operators on the CPU and on CUDA
  bool needs_data = false;     // its results depend on the values of its arguments
  bool plain_results = false;  // some result is no tensor
  bool answers = false;        // no result is a tensor
  bool is_view = false;        // some result is a view of an argument
  bool gives_special = false;  // sparse, nested, quantized tensors, or those of mkldnn, by its name
  bool unsafe_view = false;    // a view of its first argument without saying so
  bool special = false;        // Recorder::record_special looks at it
  bool custom = false;         // none of LibTorch's own: its kernels may be Python, and have effects
};

// Null if a graph may have the operator, else why not.
const char* why_not_custom(const OpEntry& op);
// Null if a call of the operator may be captured as what it calls. Only operators that it calls on tensors are in the
// graph then: what else a composite of the program looks at or does, it would at the capture alone.
const char* why_not_composite(const OpEntry& op);

// Stays valid for the life of the process. Thread-safe.
const OpEntry& op_entry(const c10::OperatorHandle& handle);
// By the name that graph/ has for it. Null if LibTorch has no such operator.
const OpEntry* op_entry_by_id(graph::OpId op);
const OpEntry* op_entry_by_name(std::string_view name);

}  // namespace framejit::torchlib
