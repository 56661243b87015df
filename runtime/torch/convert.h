// Plain facts between LibTorch and graph/: element types, devices, shapes.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include "graph/tensor_meta.h"

namespace framejit::torchlib {

static_assert(static_cast<int>(c10::ScalarType::Float) == static_cast<int>(graph::DType::kF32));
static_assert(static_cast<int>(c10::ScalarType::BFloat16) == static_cast<int>(graph::DType::kBF16));
static_assert(static_cast<int>(c10::ScalarType::Float8_e4m3fn) == static_cast<int>(graph::DType::kF8E4M3FN));
static_assert(static_cast<int>(c10::ScalarType::UInt64) == static_cast<int>(graph::DType::kU64));
static_assert(static_cast<int>(c10::DeviceType::CUDA) == static_cast<int>(graph::DeviceType::kCuda));
static_assert(static_cast<int>(c10::DeviceType::Meta) == static_cast<int>(graph::DeviceType::kMeta));

inline graph::DType to_dtype(c10::ScalarType type) {
  return type == c10::ScalarType::Undefined ? graph::DType::kUndefined : static_cast<graph::DType>(type);
}
inline c10::ScalarType from_dtype(graph::DType type) {
  return type == graph::DType::kUndefined ? c10::ScalarType::Undefined : static_cast<c10::ScalarType>(type);
}
inline graph::Device to_device(c10::Device device) {
  return {static_cast<graph::DeviceType>(device.type()),
          device.is_cpu() ? int8_t{-1} : static_cast<int8_t>(device.index())};
}
inline c10::Device from_device(graph::Device device) {
  return c10::Device(static_cast<c10::DeviceType>(device.type), device.index);
}
inline c10::IntArrayRef to_array(const graph::DimVector& dims) { return {dims.data(), dims.size()}; }
inline graph::DimVector to_dims(c10::IntArrayRef dims) {
  return graph::DimVector(std::span<const int64_t>(dims.data(), dims.size()));
}

// Of a strided tensor. requires_grad is left false.
inline graph::TensorMeta meta_of(const c10::TensorImpl& impl) {
  graph::TensorMeta meta;
  meta.sizes = to_dims(impl.sizes());
  meta.strides = to_dims(impl.strides());
  meta.storage_offset = impl.storage_offset();
  meta.dtype = to_dtype(c10::typeMetaToScalarType(impl.dtype()));
  meta.device = to_device(impl.device());
  meta.wrapped_number = impl.is_wrapped_number();
  return meta;
}

}  // namespace framejit::torchlib
