#include "graph/infer/context.h"

#include "graph/infer/placement.h"
#include "graph/op_table.h"

namespace framejit::graph {
namespace {

TensorMeta wrapped(DType dtype) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.wrapped_number = true;
  return meta;
}

const TensorMeta kUndefinedMeta{};
const TensorMeta kScalarMeta = wrapped(DType::kF32);
const TensorMeta kWrappedInt = wrapped(DType::kI64);
const TensorMeta kWrappedFloat = wrapped(DType::kF64);
const TensorMeta kWrappedBool = wrapped(DType::kBool);
const TensorMeta kWrappedComplex = wrapped(DType::kC128);

bool ordinary(const TensorMeta& meta) {
  bool quantised = meta.dtype >= DType::kQI8 && meta.dtype <= DType::kQI32;
  return meta.layout == Layout::kStrided && !quantised;
}

}  // namespace

const TensorMeta* InferContext::tensor_of(const Operand& operand) {
  switch (operand.kind()) {
    case Operand::Kind::kValue: {
      const TensorMeta& meta = metas_(operand.as_value());
      if (!meta.defined()) return nullptr;
      if (!ordinary(meta)) unsure();
      return &meta;
    }
    case Operand::Kind::kInt:
      return &kWrappedInt;
    case Operand::Kind::kFloat:
      return &kWrappedFloat;
    case Operand::Kind::kBool:
      return &kWrappedBool;
    case Operand::Kind::kComplex:
      return &kWrappedComplex;
    case Operand::Kind::kNone:
      return nullptr;
    default:
      unsure();
      return nullptr;
  }
}

const TensorMeta& InferContext::self(size_t i) {
  if (i < operands_.size() && operands_[i].is_value()) {
    const TensorMeta* meta = tensor_of(operands_[i]);
    if (meta) return *meta;
  }
  unsure();
  return kScalarMeta;
}

size_t InferContext::list_size(size_t i) {
  if (!operands_[i].is(Operand::Kind::kValues)) {
    unsure();
    return 0;
  }
  return operands_[i].size();
}

const TensorMeta* InferContext::list_tensor(size_t i, size_t element) {
  ValueId id = operands_[i].as_values()[element];
  return id.valid() ? tensor_of(Operand::value(id)) : nullptr;
}

int64_t InferContext::integer(size_t i) {
  if (i < operands_.size()) {
    const Operand& o = operands_[i];
    if (o.is(Operand::Kind::kInt)) return o.as_int();
    if (o.is(Operand::Kind::kBool)) return o.as_bool();
  }
  unsure();
  return 0;
}

bool InferContext::boolean(size_t i) {
  if (i < operands_.size()) {
    const Operand& o = operands_[i];
    if (o.is(Operand::Kind::kBool)) return o.as_bool();
    if (o.is(Operand::Kind::kInt)) return o.as_int() != 0;
  }
  unsure();
  return false;
}

double InferContext::real(size_t i) {
  if (i < operands_.size()) {
    const Operand& o = operands_[i];
    if (o.is(Operand::Kind::kFloat)) return o.as_float();
    if (o.is(Operand::Kind::kInt)) return static_cast<double>(o.as_int());
    if (o.is(Operand::Kind::kBool)) return o.as_bool();
  }
  unsure();
  return 0;
}

std::span<const int64_t> InferContext::ints(size_t i) {
  if (i < operands_.size()) {
    const Operand& o = operands_[i];
    if (o.is(Operand::Kind::kInts)) return o.as_ints();
    if (o.is_none()) return {};
  }
  unsure();
  return {};
}

std::optional<DType> InferContext::dtype(size_t i) {
  if (!has(i)) return std::nullopt;
  const Operand& o = operands_[i];
  if (o.is(Operand::Kind::kDType)) return o.as_dtype();
  if (o.is(Operand::Kind::kInt)) return static_cast<DType>(o.as_int());
  unsure();
  return std::nullopt;
}

std::optional<Device> InferContext::device(size_t i) {
  if (!has(i)) return std::nullopt;
  if (operands_[i].is(Operand::Kind::kDevice)) {
    Device device = operands_[i].as_device();
    // "cuda" without an index means the current device, which the graph does not know.
    if (!device.is_cpu() && !device.is_meta() && device.index < 0) unsure();
    return device;
  }
  unsure();
  return std::nullopt;
}

std::optional<MemoryFormat> InferContext::memory_format(size_t i) {
  if (!has(i)) return std::nullopt;
  const Operand& o = operands_[i];
  if (o.is(Operand::Kind::kMemoryFormat)) return o.as_memory_format();
  if (o.is(Operand::Kind::kInt)) return static_cast<MemoryFormat>(o.as_int());
  unsure();
  return std::nullopt;
}

bool InferContext::strided_layout(size_t i) {
  if (!has(i)) return true;
  const Operand& o = operands_[i];
  bool strided = (o.is(Operand::Kind::kLayout) && o.as_layout() == Layout::kStrided) ||
                 (o.is(Operand::Kind::kInt) && o.as_int() == 0);
  if (!strided) unsure();
  return strided;
}

TensorMeta& InferContext::add_fresh(std::span<const int64_t> sizes, DType dtype, Device device, MemoryFormat format) {
  TensorMeta& meta = out_.add().meta;
  bool fits = (format != MemoryFormat::kChannelsLast || sizes.size() == 4) &&
              (format != MemoryFormat::kChannelsLast3d || sizes.size() == 5) && format != MemoryFormat::kPreserve;
  if (!fits) {
    unsure();
    format = MemoryFormat::kContiguous;
  }
  meta.sizes.assign(sizes);
  meta.strides = strides_for(sizes, format);
  meta.dtype = dtype;
  meta.device = device;
  return meta;
}

TensorMeta& InferContext::add_fresh(TensorMeta meta) {
  TensorMeta& slot = out_.add().meta;
  slot = std::move(meta);
  slot.storage_offset = 0;
  slot.requires_grad = false;
  slot.wrapped_number = false;
  return slot;
}

TensorMeta& InferContext::add_view(size_t i, const DimVector& sizes, const DimVector& strides, int64_t offset) {
  const TensorMeta& base = self(i);
  ResultMeta& result = out_.add();
  result.alias = AliasKind::kView;
  result.alias_operand = static_cast<int16_t>(i);
  result.meta.sizes = sizes;
  result.meta.strides = strides;
  result.meta.storage_offset = offset;
  result.meta.dtype = base.dtype;
  result.meta.device = base.device;
  return result.meta;
}

TensorMeta& InferContext::add_same(size_t i) {
  const TensorMeta& base = self(i);
  ResultMeta& result = out_.add();
  result.alias = AliasKind::kSame;
  result.alias_operand = static_cast<int16_t>(i);
  result.meta = base;
  result.meta.requires_grad = false;
  return result.meta;
}

InferStatus infer_meta(OpId op, std::span<const Operand> operands, const MetaLookup& metas, InferOutput& out,
                       const InferEnvironment& environment) {
  out.clear();
  if (op.value >= kOpRowCount || kOpRows[op.value].infer == nullptr) return InferStatus::kNoRule;
  const uint32_t flags = op_info(op).flags;
  if (!rule_holds(flags, placement_of(flags, operands, metas), operands, metas)) return InferStatus::kNoRule;
  InferContext context(operands, metas, out, environment);
  InferStatus status = kOpRows[op.value].infer(context);
  if (context.is_unsure()) status = InferStatus::kNoRule;
  if (status != InferStatus::kOk) out.clear();
  return status;
}

bool has_infer_rule(OpId op) { return op.value < kOpRowCount && kOpRows[op.value].infer != nullptr; }

}  // namespace framejit::graph
