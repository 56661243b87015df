#include "graph/infer/pointwise.h"

#include "graph/infer/iterator.h"
#include "graph/infer/scalar.h"

namespace framejit::graph::infer {
namespace {

using Inputs = std::array<const TensorMeta*, 6>;

Inputs gather(InferContext& c, const std::array<int8_t, 6>& indices) {
  Inputs inputs{};
  for (size_t k = 0; k < indices.size() && indices[k] >= 0; ++k) inputs[k] = c.tensor(static_cast<size_t>(indices[k]));
  return inputs;
}

// kUndefined when the types do not mix.
DType result_dtype(InferContext& c, const Inputs& inputs, Promote promote) {
  if (promote == Promote::kFirst || promote == Promote::kReal) {
    if (!inputs[0]) return c.unsure(), DType::kUndefined;
    return promote == Promote::kReal ? to_real(inputs[0]->dtype) : inputs[0]->dtype;
  }
  ResultType type(c.environment().default_dtype);
  for (const TensorMeta* meta : inputs)
    if (meta) type.add(*meta);
  DType common = type.get();
  if (common == DType::kUndefined) return common;
  if (promote == Promote::kBool) return DType::kBool;
  if (promote == Promote::kIntToFloat && is_integral(common, true)) return c.environment().default_dtype;
  return common;
}

InferStatus add_elementwise(InferContext& c, const Inputs& inputs, DType dtype, bool contiguous = false) {
  auto device = common_device(inputs);
  auto out = elementwise_output(inputs);
  if (!out || !device) return InferStatus::kError;
  TensorMeta meta;
  meta.strides = contiguous ? contiguous_strides(out->sizes) : std::move(out->strides);
  meta.sizes = std::move(out->sizes);
  meta.dtype = dtype;
  meta.device = *device;
  c.add_fresh(std::move(meta));
  return InferStatus::kOk;
}

}  // namespace

InferStatus pointwise(InferContext& c, const PointwiseRule& rule) {
  DType dtype = result_dtype(c, gather(c, rule.promote_args), rule.promote);
  if (dtype == DType::kUndefined || (rule.no_bool && dtype == DType::kBool)) return InferStatus::kError;
  return add_elementwise(c, gather(c, rule.iterate_args), dtype, rule.contiguous);
}

InferStatus pointwise_inplace(InferContext& c, const PointwiseRule& rule) {
  const TensorMeta& self = c.self();
  DType dtype = result_dtype(c, gather(c, rule.promote_args), rule.promote);
  if (dtype == DType::kUndefined || !can_cast(dtype, self.dtype)) return InferStatus::kError;
  if (rule.no_bool && dtype == DType::kBool) return InferStatus::kError;
  Inputs inputs = gather(c, rule.iterate_args);
  if (!common_device(inputs)) return InferStatus::kError;
  for (const TensorMeta* meta : inputs)
    if (meta && !expandable_to(meta->sizes, self.sizes)) return InferStatus::kError;
  c.add_same(0);
  return InferStatus::kOk;
}

InferStatus returns_self(InferContext& c) {
  c.add_same(0);
  return InferStatus::kOk;
}

namespace {

PointwiseRule unary() {
  PointwiseRule rule;
  rule.promote_args[0] = rule.iterate_args[0] = 0;
  rule.promote = Promote::kFirst;
  return rule;
}

}  // namespace

InferStatus abs(InferContext& c) {
  TensorMeta self = c.self();
  if (is_complex(self.dtype)) {
    self.strides = preserved_strides(self);
    self.dtype = to_real(self.dtype);
    c.add_fresh(std::move(self));
    return InferStatus::kOk;
  }
  return pointwise(c, unary());
}

InferStatus copy_(InferContext& c) {
  const TensorMeta& self = c.self();
  const TensorMeta* source = c.tensor(1);
  if (!source) return c.unsure();
  if (!expandable_to(source->sizes, self.sizes)) return InferStatus::kError;
  if (source->device.is_meta() && !self.device.is_meta()) return InferStatus::kError;  // there is no data
  c.add_same(0);
  return InferStatus::kOk;
}

namespace {

PointwiseRule binary(Promote promote) {
  PointwiseRule rule;
  rule.promote_args[0] = rule.iterate_args[0] = 0;
  rule.promote_args[1] = rule.iterate_args[1] = 1;
  rule.promote = promote;
  return rule;
}

}  // namespace

InferStatus div_mode(InferContext& c) {
  return pointwise(c, binary(c.has(2) ? Promote::kCommon : Promote::kIntToFloat));
}

InferStatus div_mode_inplace(InferContext& c) {
  return pointwise_inplace(c, binary(c.has(2) ? Promote::kCommon : Promote::kIntToFloat));
}

namespace {

// A Meta kernel does not say so of a bool beside floats.
bool has_bool_operand(InferContext& c) {
  for (size_t i = 0; i < 2; ++i)
    if (const TensorMeta* operand = c.tensor(i); operand && operand->dtype == DType::kBool) return true;
  return false;
}

}  // namespace

InferStatus subtract(InferContext& c) {
  return has_bool_operand(c) ? InferStatus::kError : pointwise(c, binary(Promote::kCommon));
}

InferStatus subtract_inplace(InferContext& c) {
  return has_bool_operand(c) ? InferStatus::kError : pointwise_inplace(c, binary(Promote::kCommon));
}

// pow(2, x): the base is a wrapped number.
InferStatus pow_scalar_base(InferContext& c) {
  const Operand& base = c.operand(0);
  bool one = (base.is(Operand::Kind::kInt) && base.as_int() == 1) ||
             (base.is(Operand::Kind::kFloat) && base.as_float() == 1.0) || base.is(Operand::Kind::kBool);
  // LibTorch fills a result of another making for base 1.
  if (one) return c.unsure();
  PointwiseRule rule = binary(Promote::kCommon);
  rule.contiguous = true;
  return pointwise(c, rule);
}

InferStatus angle(InferContext& c) {
  const TensorMeta& self = c.self();
  if (is_complex(self.dtype)) {
    c.add_fresh(self.sizes, to_real(self.dtype), self.device);
    return InferStatus::kOk;
  }
  if (!is_floating(self.dtype)) return c.unsure();
  return pointwise(c, unary());
}

// Two parts, or length and angle.
InferStatus complex_of_parts(InferContext& c) {
  const TensorMeta* parts[] = {c.tensor(0), c.tensor(1)};
  if (!parts[0] || !parts[1]) return c.unsure();
  if (parts[0]->dtype != parts[1]->dtype) return InferStatus::kError;
  const DType type = parts[0]->dtype;
  if (type != DType::kF16 && type != DType::kF32 && type != DType::kF64) return c.unsure();
  auto out = elementwise_output(parts);
  auto device = common_device(parts);
  if (!out || !device) return c.unsure();
  c.add_fresh(out->sizes, to_complex(type), *device).strides = std::move(out->strides);
  return InferStatus::kOk;
}

// grad_output, mask, scale
InferStatus native_dropout_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &mask = c.self(1);
  if (is_complex(grad.dtype) || mask.dtype != DType::kBool || mask.sizes != grad.sizes) return c.unsure();
  return pointwise(c, binary(Promote::kIntToFloat));
}

InferStatus where(InferContext& c) {
  const TensorMeta* condition = c.tensor(0);
  if (!condition) return c.unsure();
  if (condition->dtype != DType::kBool && condition->dtype != DType::kU8) return InferStatus::kError;
  PointwiseRule rule;
  rule.promote_args = {1, 2, -1, -1, -1, -1};
  rule.iterate_args = {0, 1, 2, -1, -1, -1};
  return pointwise(c, rule);
}

namespace {

// What a tensor holds is not known. A complex one may have no imaginary part: then the interpreter fills with it.
bool may_fill(const TensorMeta& self, const Operand& number, const TensorMeta& value) {
  if (value.dim() != 0) return false;
  if (!number.is_value()) return holds(self.dtype, number);
  return !is_complex(value.dtype) || is_complex(self.dtype) || self.dtype == DType::kBool;
}

}  // namespace

InferStatus masked_fill(InferContext& c) {
  const TensorMeta& self = c.self();
  const TensorMeta *mask = c.tensor(1), *value = c.tensor(2);
  if (!mask || !value) return c.unsure();
  if (!may_fill(self, c.operand(2), *value)) return InferStatus::kError;
  DimVector sizes = self.sizes;
  if (mask->dtype != DType::kBool || !broadcast_shape(sizes, mask->sizes)) return InferStatus::kError;
  c.add_fresh(sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

InferStatus masked_fill_inplace(InferContext& c) {
  const TensorMeta& self = c.self();
  const TensorMeta *mask = c.tensor(1), *value = c.tensor(2);
  if (!mask || !value) return c.unsure();
  if (!may_fill(self, c.operand(2), *value)) return InferStatus::kError;
  if (mask->dtype != DType::kBool || !expandable_to(mask->sizes, self.sizes)) return InferStatus::kError;
  c.add_same(0);
  return InferStatus::kOk;
}

namespace {

// self, approximate
bool takes_gelu(InferContext& c) {
  const Operand& approximate = c.operand(1);
  if (!approximate.is(Operand::Kind::kString)) return c.unsure(), false;
  return is_floating(c.self().dtype) && (approximate.as_string() == "none" || approximate.as_string() == "tanh");
}

}  // namespace

InferStatus gelu(InferContext& c) { return takes_gelu(c) ? pointwise(c, unary()) : InferStatus::kError; }

InferStatus gelu_inplace(InferContext& c) {
  return takes_gelu(c) ? pointwise_inplace(c, unary()) : InferStatus::kError;
}

// self, lambd. Releases differ in how large it may be.
InferStatus softshrink(InferContext& c) {
  const TensorMeta& self = c.self();
  const double lambd = c.real(1);
  if (!is_floating(self.dtype) || !(lambd >= 0 && lambd <= range_of(self.dtype).highest)) return InferStatus::kError;
  return pointwise(c, unary());
}

InferStatus native_dropout(InferContext& c) {
  const TensorMeta& self = c.self();
  DimVector strides = preserved_strides(self);
  TensorMeta out = self;
  out.strides = strides;
  TensorMeta mask = out;
  mask.dtype = DType::kBool;
  if (self.device.is_cpu()) return c.unsure();
  c.add_fresh(std::move(out));
  c.add_fresh(std::move(mask));
  return InferStatus::kOk;
}

InferStatus fake_quantize_cachemask(InferContext& c) {
  TensorMeta out = c.self();
  if (!is_floating(out.dtype)) return c.unsure();
  out.strides = preserved_strides(c.self());
  TensorMeta mask = out;
  mask.dtype = DType::kBool;
  c.add_fresh(std::move(out));
  c.add_fresh(std::move(mask));
  return InferStatus::kOk;
}

InferStatus glu(InferContext& c) {
  TensorMeta half = c.self();
  int64_t dim = wrap_dim(c.integer(1), half.dim());
  if (half.dim() == 0 || dim < 0 || half.sizes[dim] % 2 != 0) return InferStatus::kError;
  half.sizes[dim] /= 2;
  const TensorMeta* inputs[] = {&half, &half};
  auto out = elementwise_output(inputs);
  if (!out) return InferStatus::kError;
  half.strides = std::move(out->strides);
  c.add_fresh(std::move(half));
  return InferStatus::kOk;
}

// grad_output, self, dim
InferStatus glu_backward(InferContext& c) {
  const TensorMeta &grad = c.self(0), &self = c.self(1);
  const int64_t dim = wrap_dim(c.integer(2), self.dim());
  if (self.dim() == 0 || dim < 0 || self.sizes[dim] % 2 != 0 || grad.dtype != self.dtype) return c.unsure();
  DimVector half = self.sizes;
  half[dim] /= 2;
  if (grad.sizes != half) return c.unsure();
  c.add_fresh(self.sizes, self.dtype, self.device);
  return InferStatus::kOk;
}

// LibTorch multiplies by pow(2., other), which is contiguous. Of complex and half types releases differ.
InferStatus ldexp(InferContext& c) {
  TensorMeta power = c.self(1);
  auto is_plain = [](DType dtype) { return is_integral(dtype, true) || dtype == DType::kF32 || dtype == DType::kF64; };
  if (!is_plain(power.dtype) || !is_plain(c.self(0).dtype)) return c.unsure();
  if (is_integral(power.dtype, true)) power.dtype = c.environment().default_dtype;
  power.strides = contiguous_strides(power.sizes);
  const Inputs inputs{&c.self(0), &power};
  const DType dtype = result_dtype(c, inputs, Promote::kCommon);
  return dtype == DType::kUndefined ? InferStatus::kError : add_elementwise(c, inputs, dtype);
}

}  // namespace framejit::graph::infer
