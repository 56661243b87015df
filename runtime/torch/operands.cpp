#include "runtime/torch/operands.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/torch/convert.h"

namespace framejit::torchlib {

using graph::Operand;

void Scratch::grow(size_t bytes) {
  size_t size = std::max<size_t>(bytes, 8 * 1024);
  chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
  memory_ = chunks_.back().get();
  size_ = size;
  used_ = 0;
}

void Scratch::drop_small_chunks() { chunks_.erase(chunks_.begin(), chunks_.end() - 1); }

namespace {

Operand complex_operand(c10::complex<double> value, Scratch& scratch) {
  double* parts = scratch.allocate<double>(2);
  parts[0] = value.real();
  parts[1] = value.imag();
  return Operand::complex(parts);
}

template <class T, class Read>
std::span<const T> copy_list(c10::ArrayRef<c10::IValue> list, Scratch& scratch, Read read) {
  T* memory = scratch.allocate<T>(list.size());
  for (size_t i = 0; i < list.size(); ++i) memory[i] = read(list[i]);
  return {memory, list.size()};
}

Operand number_operand(const c10::IValue& value, Scratch& scratch) {
  if (value.isInt()) return Operand::integer(value.toInt());
  if (value.isDouble()) return Operand::real(value.toDouble());
  if (value.isBool()) return Operand::boolean(value.toBool());
  return complex_operand(value.toComplexDouble(), scratch);
}

Operand int_operand(int64_t value, ArgKind kind) {
  switch (kind) {
    case ArgKind::kDType:
      return Operand::dtype(to_dtype(static_cast<c10::ScalarType>(value)));
    case ArgKind::kLayout:
      return Operand::layout(static_cast<graph::Layout>(value));
    case ArgKind::kMemoryFormat:
      return Operand::memory_format(static_cast<graph::MemoryFormat>(value));
    default:
      return Operand::integer(value);
  }
}

// "cuda" is the current device where the program stands, which may be another when the graph runs.
c10::Device with_index(c10::Device device) {
  const bool current = !device.has_index() && !device.is_cpu() && !device.is_meta();
  return current && c10::impl::hasDeviceGuardImpl(device.type())
             ? c10::impl::VirtualGuardImpl(device.type()).getDevice()
             : device;
}

bool list_operand(const c10::IValue& value, Scratch& scratch, Operand* out) {
  c10::ArrayRef<c10::IValue> list = value.toListRef();
  auto all = [&](auto test) { return std::all_of(list.begin(), list.end(), test); };
  if (value.isIntList() || (!list.empty() && all([](const c10::IValue& v) { return v.isInt(); }))) {
    *out = Operand::ints(copy_list<int64_t>(list, scratch, [](const c10::IValue& v) { return v.toInt(); }));
  } else if (value.isDoubleList() || (!list.empty() && all([](const c10::IValue& v) { return v.isDouble(); }))) {
    *out = Operand::floats(copy_list<double>(list, scratch, [](const c10::IValue& v) { return v.toDouble(); }));
  } else if (value.isBoolList() || (!list.empty() && all([](const c10::IValue& v) { return v.isBool(); }))) {
    *out = Operand::bools(copy_list<bool>(list, scratch, [](const c10::IValue& v) { return v.toBool(); }));
  } else if (all([](const c10::IValue& v) { return v.isScalar(); })) {
    *out = Operand::scalars(
        copy_list<Operand>(list, scratch, [&](const c10::IValue& v) { return number_operand(v, scratch); }));
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool to_operand(const c10::IValue& value, ArgKind kind, Scratch& scratch, ConstantPool& constants, Operand* out) {
  if (value.isNone()) {
    *out = Operand::none();
  } else if (value.isInt()) {
    *out = int_operand(value.toInt(), kind);
  } else if (value.isDouble() || value.isBool() || value.isComplexDouble()) {
    *out = number_operand(value, scratch);
  } else if (value.isDevice()) {
    *out = Operand::device(to_device(with_index(value.toDevice())));
  } else if (value.isString()) {
    const std::string& text = value.toStringRef();
    char* memory = scratch.allocate<char>(text.size());
    std::copy(text.begin(), text.end(), memory);
    *out = Operand::string({memory, text.size()});
  } else if (value.isGenerator()) {
    constants.push_back(value);
    *out = Operand::constant(graph::ConstId(constants.size() - 1));
  } else if (value.isList()) {
    return list_operand(value, scratch, out);
  } else {
    return false;
  }
  return true;
}

bool number_of(const at::Tensor& tensor, Scratch& scratch, Operand* out) {
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) return false;
  switch (tensor.scalar_type()) {
    case at::kLong:
      *out = Operand::integer(*tensor.const_data_ptr<int64_t>());
      return true;
    case at::kDouble:
      *out = Operand::real(*tensor.const_data_ptr<double>());
      return true;
    case at::kBool:
      *out = Operand::boolean(*tensor.const_data_ptr<bool>());
      return true;
    case at::kComplexDouble:
      *out = complex_operand(*tensor.const_data_ptr<c10::complex<double>>(), scratch);
      return true;
    default:
      return false;
  }
}

c10::IValue number_tensor(const c10::Scalar& value) {
  at::Tensor tensor = at::scalar_tensor(value, at::TensorOptions().dtype(value.type()).device(at::kCPU));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

namespace {

c10::Scalar scalar_of(const Operand& operand) {
  switch (operand.kind()) {
    case Operand::Kind::kInt:
      return operand.as_int();
    case Operand::Kind::kFloat:
      return operand.as_float();
    case Operand::Kind::kBool:
      return operand.as_bool();
    default:
      return c10::complex<double>(operand.as_complex()[0], operand.as_complex()[1]);
  }
}

}  // namespace

graph::DType type_of_numbers(const graph::Graph& graph, const graph::Node& node) {
  using graph::DType;
  DType type = DType::kUndefined;
  if (!graph::op_info(node.op).has(graph::kOpPointwise)) return type;
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (node.arg(i).is(Operand::Kind::kValues)) return DType::kUndefined;
    if (!node.arg(i).is_value()) continue;
    const graph::TensorMeta& meta = graph.meta(node.arg(i).as_value());
    const bool floats = meta.dtype == DType::kF32 || meta.dtype == DType::kF64;
    const bool fits = meta.device.is_cpu() && floats && !meta.wrapped_number;
    if (!fits || (type != DType::kUndefined && type != meta.dtype)) return DType::kUndefined;
    type = meta.dtype;
  }
  return type;
}

c10::IValue number_in(const Operand& number, graph::DType type) {
  at::Tensor tensor = number_tensor(scalar_of(number)).toTensor().to(from_dtype(type));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::IValue from_operand(const Operand& operand, ArgKind kind, const ConstantPool& constants) {
  switch (operand.kind()) {
    case Operand::Kind::kNone:
      return kind == ArgKind::kTensor ? c10::IValue(at::Tensor()) : c10::IValue();
    case Operand::Kind::kInt:
    case Operand::Kind::kFloat:
    case Operand::Kind::kBool:
    case Operand::Kind::kComplex:
      return kind == ArgKind::kTensor || kind == ArgKind::kOptionalTensor ? number_tensor(scalar_of(operand))
                                                                          : c10::IValue(scalar_of(operand));
    case Operand::Kind::kString:
      return std::string(operand.as_string());
    case Operand::Kind::kInts:
      return c10::IntArrayRef(operand.as_ints().data(), operand.size());
    case Operand::Kind::kFloats:
      return c10::ArrayRef<double>(operand.as_floats().data(), operand.size());
    case Operand::Kind::kBools: {
      c10::List<bool> list;
      for (bool item : operand.as_bools()) list.push_back(item);
      return list;
    }
    case Operand::Kind::kScalars: {
      if (kind == ArgKind::kOptionalScalars) {
        c10::List<std::optional<c10::Scalar>> list;
        for (const Operand& item : operand.as_scalars()) list.push_back(scalar_of(item));
        return list;
      }
      c10::List<c10::Scalar> list;
      for (const Operand& item : operand.as_scalars()) list.push_back(scalar_of(item));
      return list;
    }
    case Operand::Kind::kDType:
      return static_cast<int64_t>(from_dtype(operand.as_dtype()));
    case Operand::Kind::kLayout:
      return static_cast<int64_t>(operand.as_layout());
    case Operand::Kind::kMemoryFormat:
      return static_cast<int64_t>(operand.as_memory_format());
    case Operand::Kind::kDevice:
      return from_device(operand.as_device());
    case Operand::Kind::kConst:
      return constants.at(operand.as_const().index());
    default:
      FJ_CHECK(false, "operand of kind {} has no value of its own", graph::kind_name(operand.kind()));
  }
}

}  // namespace framejit::torchlib
