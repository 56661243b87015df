// A failed run leaves no trace: what its operators wrote of the caller's tensors, and the random numbers that they
// drew, are taken back, so that the same code may run again in the interpreter and fail there, in the program's order.
//
// Only what stands at or before an operator that may raise is saved, and of a write only what it covers: at most the
// write's own cost again.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace framejit::torchlib {

class Plan;

// Written contents and generator states of one run.
class UndoLog {
 public:
  using Indices = c10::List<std::optional<at::Tensor>>;

  // Before the tensor is written.
  void save(const at::Tensor& written);
  // The same, where only the elements that these indices select are written.
  void save(const at::Tensor& written, const Indices& indices);
  void save_version(const at::Tensor& written);
  void save_generator(at::Device device);
  // Newest first. The log is empty afterwards.
  void undo();

 private:
  struct Content {
    at::Tensor target, content;
    std::optional<Indices> indices;
  };
  std::vector<Content> contents_;
  std::vector<std::pair<at::Tensor, int64_t>> versions_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

// Which failures are taken back.
enum class UndoOf : uint8_t {
  kNothing,    // nothing is saved: the error leaves the call, and what ran before it has happened, as in eager
  kOperators,  // of operators that may raise: code of the program may see what a failed run leaves
  kOverlaps,   // inputs share memory as well: whatever writes one may find operands that overlap
};

// What each step of a plan has to save before it runs. Immutable.
class UndoPlan {
 public:
  UndoPlan() = default;
  UndoPlan(const graph::Graph& graph, const Plan& plan, UndoOf failures);

  bool saves() const { return saves_; }
  void before_step(size_t step, at::Tensor* registers, UndoLog& log) const;
  // Whether a run that failed in this step has left no trace once its log was undone.
  bool leaves_no_trace(size_t failed_step) const { return failed_step < first_trace_; }

 private:
  struct Row {
    std::vector<uint32_t> written;   // registers
    std::vector<uint32_t> versions;  // registers of inputs whose version the step bumps
    std::vector<at::Device> draws;   // devices whose generator it uses
    std::vector<int64_t> indices;    // index_put_ and the like: registers, -1: None; `written` is one register
  };
  std::vector<Row> rows_;  // by step; empty if nothing is saved
  size_t first_trace_ = 0;
  bool saves_ = false;
};

}  // namespace framejit::torchlib
