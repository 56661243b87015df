// The tensor library's part of the guards. Its functions set no Python error and run no Python.
#pragma once

#include <cstdint>
#include <vector>

#include "base/py_ref.h"
#include "graph/capture.h"

namespace framejit::runtime {

// A tensor that must have this Python type and these words.
struct TensorRow {
  PyObject* tensor;
  PyObject* type;
  const uint64_t* words;
  uint32_t guard;
  // Where in TensorRows::images its memory is, from which the words follow; kNoImage: the words are compared.
  uint32_t image = kNoImage;
  const void* autograd = nullptr;
  uint64_t grad_facts = 0;

  static constexpr uint32_t kNoImage = UINT32_MAX;
};

// Tensors that are compared together. Those that are alike share an image: a check of a large model is bound by the
// memory that it touches.
struct TensorRows {
  std::vector<TensorRow> rows;
  std::vector<uint64_t> images;
};

struct TensorGuards {
  // Appends what `matches` compares, as words that lie together.
  void (*pack)(const graph::TensorFacts& facts, std::vector<uint64_t>& words) = nullptr;
  // Whether the fields of the tensor's implementation are the packed ones. The Python type, which the guard compares
  // first, has told that it is a tensor.
  bool (*matches)(PyObject* tensor, const uint64_t* words) = nullptr;
  // Notes images of tensors that are as their rows say.
  void (*take_images)(TensorRows& rows) = nullptr;
  // The first row whose tensor is not as it says, or their number.
  size_t (*first_mismatch)(const TensorRows& rows) = nullptr;
  // Whether no hook of any kind sees a gradient that reaches this tensor.
  bool (*has_no_grad_hooks)(PyObject* tensor) = nullptr;
  // Grad and inference mode, autocast, defaults, deterministic mode, active modes and back-end switches, as one word.
  uint64_t (*global_state)() = nullptr;
};

}  // namespace framejit::runtime
