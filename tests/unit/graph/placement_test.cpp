#include "graph/infer/placement.h"

#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

constexpr Device kCuda0{DeviceType::kCuda, 0}, kCuda1{DeviceType::kCuda, 1}, kMeta{DeviceType::kMeta, -1};

TensorMeta on(Device device, std::initializer_list<int64_t> sizes, DType dtype = DType::kF32) {
  return TensorMeta::fresh({sizes.begin(), sizes.size()}, dtype, device);
}

class Metas {
 public:
  explicit Metas(std::vector<TensorMeta> metas) : metas_(std::move(metas)) {}

  Placement placement(std::string_view op, std::vector<Operand> operands) const {
    return placement_of(op_info(find_op(op)).flags, operands, lookup());
  }
  std::string text(std::vector<Operand> operands) const { return placement_text(operands, lookup()); }

 private:
  MetaLookup lookup() const {
    return MetaLookup(this, [](const void* self, ValueId id) -> const TensorMeta& {
      return static_cast<const Metas*>(self)->metas_[id.index()];
    });
  }
  std::vector<TensorMeta> metas_;
};

TEST(PlacementTest, TensorsOnOneDeviceAreNoMixture) {
  const Metas m({tensor({2}), tensor({2}), on(kCuda1, {2}), on(kCuda1, {})});
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(0), val(1)}), Placement::kCpu);
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(2), val(3)}), Placement::kOther);
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(2), Operand::real(2.5)}), Placement::kOther);
  EXPECT_EQ(m.placement("aten::zeros", {Operand::none()}), Placement::kCpu);
}

TEST(PlacementTest, OneNumberOnTheCpuGoesWithAnElementwiseOperator) {
  const Metas m({on(kCuda0, {2}), tensor({}), tensor({1}), on(kCuda1, {}), tensor({})});
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(0), val(1)}), Placement::kAllowed);
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(1), val(0)}), Placement::kAllowed);
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(0), val(2)}), Placement::kMixed);
  EXPECT_EQ(m.placement("aten::add.Tensor", {val(0), val(3)}), Placement::kMixed);
  EXPECT_EQ(m.placement("aten::add_.Tensor", {val(0), val(1)}), Placement::kAllowed);
  EXPECT_EQ(m.placement("aten::add_.Tensor", {val(1), val(0)}), Placement::kMixed);
  EXPECT_EQ(m.placement("aten::mm", {val(0), val(1)}), Placement::kMixed);
  EXPECT_EQ(m.placement("aten::where.self", {val(0), val(1), val(4)}), Placement::kMixed);
}

TEST(PlacementTest, IndicesMayBeOnTheCpu) {
  const Metas m({on(kCuda0, {2, 3}), tensor({2}, DType::kI64), on(kCuda0, {2}, DType::kI64), tensor({2, 3})});
  const ValueId both[] = {ValueId(1), ValueId(2)}, there[] = {ValueId(2)};
  EXPECT_EQ(m.placement("aten::index.Tensor", {val(0), Operand::values(both)}), Placement::kAllowed);
  EXPECT_EQ(m.placement("aten::index.Tensor", {val(3), Operand::values(there)}), Placement::kMixed);
  EXPECT_EQ(m.placement("aten::index_put_", {val(0), Operand::values(both), val(0)}), Placement::kAllowed);
  EXPECT_EQ(m.placement("aten::index_put_", {val(0), Operand::values(both), val(3)}), Placement::kMixed);
  EXPECT_EQ(m.text({val(0), Operand::values(both), val(3)}), "cuda:0 and cpu");
}

TEST(PlacementTest, CopiesGoBetweenDevices) {
  const Metas m({on(kCuda0, {2}), tensor({2}), on(kMeta, {2})});
  EXPECT_EQ(m.placement("aten::copy_", {val(0), val(1)}), Placement::kAllowed);
  Inference i({on(kCuda0, {2}), tensor({2}), on(kMeta, {2})});
  EXPECT_EQ(i.text("aten::copy_", {val(0), val(1), Operand::boolean(false)}), "tensor<2xf32, cuda:0>");
  EXPECT_EQ(i.text("aten::copy_", {val(2), val(1), Operand::boolean(false)}), "tensor<2xf32, meta>");
  EXPECT_EQ(i.text("aten::copy_", {val(1), val(2), Operand::boolean(false)}), "error");
}

TEST(PlacementTest, RulesOfTheCpuAreNotAskedElsewhere) {
  Inference i({on(kCuda0, {2, 3}), tensor({2, 3}), on(kMeta, {2, 3})});
  const int64_t dims[] = {0};
  const auto roll = [&](int at) { return i.text("aten::roll", {val(at), Operand::ints(dims), Operand::ints(dims)}); };
  EXPECT_EQ(roll(0), "no rule");
  EXPECT_EQ(roll(1), "tensor<2x3xf32, cpu>");
  EXPECT_EQ(i.text("aten::exp", {val(0)}), "tensor<2x3xf32, cuda:0>");
  EXPECT_EQ(i.text("aten::exp", {val(2)}), "no rule");
  EXPECT_EQ(i.text("aten::add.Tensor", {val(0), val(1), Operand::integer(1)}), "no rule");
}

}  // namespace
}  // namespace framejit::graph
