// One argument of a node. Sixteen bytes, trivially copyable, and it does not own: lists, strings and complex numbers
// point into memory of somebody else. Graph::add_node copies them into the graph's arena, so a caller may build
// operands on its own stack.
//
// Operands stand in the order of the operator's schema, all of them, defaults and keyword-only ones too.
// In the place of a tensor stands a Value; None; or a scalar (Int, Float, Bool, Complex), which means a 0-D CPU tensor
// made from a Python number ("wrapped number": `x + 2` reaches ATen as add.Tensor(x, tensor(2))). In the place of a
// tensor list stands Values; an invalid ValueId there is an element that is None.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "graph/ids.h"
#include "graph/tensor_meta.h"

namespace framejit::graph {

class Operand {
 public:
  enum class Kind : uint8_t {
    kNone,
    kValue,
    kValues,
    kInt,
    kFloat,
    kBool,
    kComplex,
    kString,
    kInts,
    kFloats,
    kBools,
    kScalars,  // a list of Scalar that mixes kinds: elements are Operands
    kDType,
    kLayout,
    kDevice,
    kMemoryFormat,
    kConst,
    kSubgraph,
  };

  constexpr Operand() = default;
  static constexpr Operand none() { return {}; }
  static constexpr Operand value(ValueId id) { return make(Kind::kValue, int64_t{id.value}); }
  static Operand values(std::span<const ValueId> ids) { return list(Kind::kValues, ids.data(), ids.size()); }
  static constexpr Operand integer(int64_t v) { return make(Kind::kInt, v); }
  static Operand real(double v) {
    Operand o = make(Kind::kFloat, 0);
    o.float_ = v;
    return o;
  }
  static constexpr Operand boolean(bool v) { return make(Kind::kBool, v); }
  // Two doubles, real and imaginary, which must outlive the operand.
  static Operand complex(const double* parts) { return list(Kind::kComplex, parts, 2); }
  static Operand string(std::string_view text) { return list(Kind::kString, text.data(), text.size()); }
  static Operand ints(std::span<const int64_t> v) { return list(Kind::kInts, v.data(), v.size()); }
  static Operand floats(std::span<const double> v) { return list(Kind::kFloats, v.data(), v.size()); }
  static Operand bools(std::span<const bool> v) { return list(Kind::kBools, v.data(), v.size()); }
  static Operand scalars(std::span<const Operand> v) { return list(Kind::kScalars, v.data(), v.size()); }
  static constexpr Operand dtype(DType v) { return make(Kind::kDType, static_cast<int64_t>(v)); }
  static constexpr Operand layout(Layout v) { return make(Kind::kLayout, static_cast<int64_t>(v)); }
  static constexpr Operand memory_format(MemoryFormat v) { return make(Kind::kMemoryFormat, static_cast<int64_t>(v)); }
  static constexpr Operand device(Device v) {
    return make(Kind::kDevice, static_cast<int64_t>(v.type) * 256 + (v.index + 128));
  }
  static constexpr Operand constant(ConstId id) { return make(Kind::kConst, int64_t{id.value}); }
  static constexpr Operand subgraph(SubgraphId id) { return make(Kind::kSubgraph, int64_t{id.value}); }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is(Kind kind) const { return kind_ == kind; }
  constexpr bool is_none() const { return kind_ == Kind::kNone; }
  constexpr bool is_value() const { return kind_ == Kind::kValue; }
  constexpr bool is_scalar() const {
    return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool || kind_ == Kind::kComplex;
  }
  // Whether ptr() points at something.
  constexpr bool is_pointer() const {
    return kind_ == Kind::kValues || kind_ == Kind::kComplex || kind_ == Kind::kString ||
           (kind_ >= Kind::kInts && kind_ <= Kind::kScalars);
  }

  ValueId as_value() const { return expect(Kind::kValue), ValueId(static_cast<uint32_t>(int_)); }
  std::span<const ValueId> as_values() const { return expect(Kind::kValues), span_of<ValueId>(); }
  int64_t as_int() const { return expect(Kind::kInt), int_; }
  double as_float() const { return expect(Kind::kFloat), float_; }
  bool as_bool() const { return expect(Kind::kBool), int_ != 0; }
  std::span<const double> as_complex() const { return expect(Kind::kComplex), span_of<double>(); }
  std::string_view as_string() const {
    return expect(Kind::kString), std::string_view(static_cast<const char*>(pointer_), size_);
  }
  std::span<const int64_t> as_ints() const { return expect(Kind::kInts), span_of<int64_t>(); }
  std::span<const double> as_floats() const { return expect(Kind::kFloats), span_of<double>(); }
  std::span<const bool> as_bools() const { return expect(Kind::kBools), span_of<bool>(); }
  std::span<const Operand> as_scalars() const { return expect(Kind::kScalars), span_of<Operand>(); }
  DType as_dtype() const { return expect(Kind::kDType), static_cast<DType>(int_); }
  Layout as_layout() const { return expect(Kind::kLayout), static_cast<Layout>(int_); }
  MemoryFormat as_memory_format() const { return expect(Kind::kMemoryFormat), static_cast<MemoryFormat>(int_); }
  Device as_device() const {
    expect(Kind::kDevice);
    return {static_cast<DeviceType>(int_ / 256), static_cast<int8_t>(int_ % 256 - 128)};
  }
  ConstId as_const() const { return expect(Kind::kConst), ConstId(static_cast<uint32_t>(int_)); }
  SubgraphId as_subgraph() const { return expect(Kind::kSubgraph), SubgraphId(static_cast<uint32_t>(int_)); }

  // Raw access for code that copies operands: the list's memory and its length in elements.
  const void* ptr() const { return pointer_; }
  uint32_t size() const { return size_; }
  size_t bytes() const;  // of the memory behind ptr(); 0 when not a pointer
  Operand with_ptr(const void* memory) const {
    Operand o = *this;
    o.pointer_ = memory;
    return o;
  }

  // Deep equality: lists by element, floats by bits (so that nan equals nan).
  friend bool operator==(const Operand& a, const Operand& b);
  friend bool operator!=(const Operand& a, const Operand& b) { return !(a == b); }

 private:
  static constexpr Operand make(Kind kind, int64_t payload) {
    Operand o;
    o.kind_ = kind;
    o.int_ = payload;
    return o;
  }
  static Operand list(Kind kind, const void* memory, size_t size) {
    Operand o;
    o.kind_ = kind;
    o.size_ = static_cast<uint32_t>(size);
    o.pointer_ = memory;
    return o;
  }
  void expect(Kind kind) const {
    if (__builtin_expect(kind_ != kind, 0)) fail_kind(kind);
  }
  [[noreturn]] void fail_kind(Kind expected) const;
  template <class T>
  std::span<const T> span_of() const {
    return {static_cast<const T*>(pointer_), size_};
  }

  Kind kind_ = Kind::kNone;
  uint32_t size_ = 0;
  union {
    int64_t int_ = 0;
    double float_;
    const void* pointer_;
  };
};

std::string_view kind_name(Operand::Kind kind);

}  // namespace framejit::graph
