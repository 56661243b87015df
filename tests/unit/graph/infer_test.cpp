#include "graph/infer.h"

#include <chrono>
#include <cmath>

#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

const int64_t kShape6x4[] = {6, 4};

TEST(PointwiseTest, BroadcastsAndPromotes) {
  Inference i({tensor({4, 1}), tensor({3}, DType::kI64)});
  EXPECT_EQ(i.text("aten::add.Tensor", {val(0), val(1), Operand::integer(1)}), "tensor<4x3xf32, cpu>");
  EXPECT_EQ(i.text("aten::eq.Tensor", {val(0), val(1)}), "tensor<4x3xbool, cpu>");
}

TEST(PointwiseTest, WrappedNumbersAreWeak) {
  Inference i({tensor({2}, DType::kF16), tensor({2}, DType::kI32), tensor({}, DType::kF64)});
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(0), Operand::real(2.5)}), "tensor<2xf16, cpu>");
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(1), Operand::real(2.5)}), "tensor<2xf32, cpu>");
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(1), Operand::integer(2)}), "tensor<2xi32, cpu>");
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(0), val(2)}), "tensor<2xf16, cpu>");
  EXPECT_EQ(i.text("aten::div.Tensor", {val(1), Operand::integer(2)}, {.default_dtype = DType::kF64}),
            "tensor<2xf64, cpu>");
}

TEST(PointwiseTest, KeepsAPermutedLayout) {
  Inference i({strided({2, 3, 4}, {12, 1, 3}), strided({2, 3, 4, 5}, {60, 1, 15, 3})});
  EXPECT_EQ(i.text("aten::exp", {val(0)}), "tensor<2x3x4xf32, cpu, strides=[12, 1, 3]>");
  EXPECT_EQ(i.text("aten::add.Tensor", {val(0), Operand::integer(1), Operand::integer(1)}),
            "tensor<2x3x4xf32, cpu, strides=[12, 1, 3]>");
  EXPECT_EQ(i.text("aten::relu", {val(1)}), "tensor<2x3x4x5xf32, cpu, strides=[60, 1, 15, 3]>");
}

TEST(PointwiseTest, ConjPhysicalKeepsAPermutedLayout) {
  Inference i({strided({2, 3, 4}, {12, 1, 3}, DType::kC64)});
  EXPECT_EQ(i.text("aten::_conj_physical", {val(0)}), "tensor<2x3x4xc64, cpu, strides=[12, 1, 3]>");
}

TEST(PointwiseTest, TheFirstOperandDecidesWhenLayoutsDiffer) {
  Inference i({tensor({2, 3}), strided({2, 3}, {1, 2})});
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(0), val(1)}), "tensor<2x3xf32, cpu>");
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(1), val(0)}), "tensor<2x3xf32, cpu, strides=[1, 2]>");
}

TEST(PointwiseTest, ShapesThatDoNotBroadcastAreErrors) {
  Inference i({tensor({4}), tensor({3})});
  EXPECT_EQ(i.text("aten::mul.Tensor", {val(0), val(1)}), "error");
}

TEST(PointwiseTest, InPlaceReturnsTheOperandItself) {
  Inference i({tensor({2, 3}), tensor({3}), tensor({3}, DType::kI64)});
  ASSERT_EQ(i.run("aten::add_.Tensor", {val(0), val(1), Operand::integer(1)}), InferStatus::kOk);
  EXPECT_EQ(i.out[0].alias, AliasKind::kSame);
  EXPECT_EQ(i.out[0].alias_operand, 0);
  EXPECT_EQ(i.text("aten::add_.Tensor", {val(1), val(0), Operand::integer(1)}), "error");
  EXPECT_EQ(i.text("aten::add_.Tensor", {val(2), val(1), Operand::integer(1)}), "error");
}

TEST(SpectralTest, LaysTransformedDimensionsOutLast) {
  Inference i({tensor({5, 6, 7}), tensor({5, 6, 7}, DType::kC64)});
  const int64_t middle[] = {1}, all[] = {0, 1, 2};
  const InferEnvironment mkl{.mkl = true};
  EXPECT_EQ(
      i.text("aten::_fft_r2c", {val(0), Operand::ints(middle), Operand::integer(0), Operand::boolean(false)}, mkl),
      "tensor<5x6x7xc64, cpu, strides=[42, 1, 6]>");
  EXPECT_EQ(i.text("aten::_fft_r2c", {val(0), Operand::ints(all), Operand::integer(0), Operand::boolean(true)}, mkl),
            "tensor<5x6x4xc64, cpu>");
  EXPECT_EQ(i.text("aten::_fft_c2r", {val(1), Operand::ints(middle), Operand::integer(0), Operand::integer(10)}, mkl),
            "tensor<5x10x7xf32, cpu, strides=[70, 1, 10]>");
  EXPECT_EQ(i.text("aten::_fft_r2c", {val(0), Operand::ints(all), Operand::integer(0), Operand::boolean(true)}),
            "no rule");
}

TEST(IndexingTest, EmbeddingBagsAreSizedByTheirMode) {
  Inference i({tensor({10, 4}), tensor({6}, DType::kI64), tensor({3}, DType::kI64)});
  auto text = [&](int64_t mode, bool last) {
    return i.text("aten::_embedding_bag_forward_only",
                  {val(0), val(1), val(2), Operand::boolean(false), Operand::integer(mode), Operand::boolean(false),
                   Operand::none(), Operand::boolean(last), Operand::integer(-1)});
  };
  EXPECT_EQ(text(0, true), "tensor<2x4xf32, cpu>; tensor<0xi64, cpu>; tensor<3xi64, cpu>; tensor<3xi64, cpu>");
  EXPECT_EQ(text(2, false), "tensor<3x4xf32, cpu>; tensor<6xi64, cpu>; tensor<3xi64, cpu>; tensor<3x4xi64, cpu>");
}

TEST(ReduceTest, LogsumexpOfIntegersIsOfTheDefaultType) {
  Inference i({tensor({2, 3}, DType::kI64), tensor({2, 3}, DType::kF16)});
  const int64_t rows[] = {0};
  const Operand arguments[] = {Operand::ints(rows), Operand::boolean(false)};
  EXPECT_EQ(i.text("aten::logsumexp", {val(0), arguments[0], arguments[1]}), "tensor<3xf32, cpu>");
  EXPECT_EQ(i.text("aten::logsumexp", {val(1), arguments[0], arguments[1]}), "tensor<3xf16, cpu>");
}

TEST(ViewTest, ComputesStridesWithoutACopy) {
  Inference i({strided({2, 3, 4}, {24, 8, 1}), strided({6, 4}, {1, 6})});
  ASSERT_EQ(i.text("aten::view", {val(0), Operand::ints(kShape6x4)}), "tensor<6x4xf32, cpu, strides=[8, 1]>");
  EXPECT_EQ(i.out[0].alias, AliasKind::kView);
  const int64_t flat[] = {-1};
  EXPECT_EQ(i.text("aten::view", {val(1), Operand::ints(flat)}), "error");
}

TEST(ViewTest, SliceClampsAndOffsets) {
  Inference i({tensor({5, 4})});
  EXPECT_EQ(i.text("aten::slice.Tensor",
                   {val(0), Operand::integer(0), Operand::integer(-3), Operand::integer(99), Operand::integer(2)}),
            "tensor<2x4xf32, cpu, strides=[8, 1], offset=8>");
  EXPECT_EQ(i.text("aten::select.int", {val(0), Operand::integer(1), Operand::integer(-1)}),
            "tensor<5xf32, cpu, strides=[4], offset=3>");
}

TEST(ViewTest, UnbindGivesOneResultPerElement) {
  Inference i({tensor({3, 2})});
  EXPECT_EQ(i.text("aten::unbind.int", {val(0), Operand::integer(0)}),
            "tensor<2xf32, cpu>; tensor<2xf32, cpu, offset=2>; tensor<2xf32, cpu, offset=4>");
}

TEST(ReduceTest, DimensionsKeepdimAndTypes) {
  Inference i({tensor({2, 3, 4}, DType::kI32), tensor({2, 3, 4})});
  const int64_t dims[] = {0, -1};
  EXPECT_EQ(i.text("aten::sum.dim_IntList", {val(0), Operand::ints(dims), Operand::boolean(true), Operand::none()}),
            "tensor<1x3x1xi64, cpu>");
  EXPECT_EQ(i.text("aten::mean.dim", {val(1), Operand::ints(dims), Operand::boolean(false), Operand::none()}),
            "tensor<3xf32, cpu>");
  EXPECT_EQ(i.text("aten::mean.dim", {val(0), Operand::ints(dims), Operand::boolean(false), Operand::none()}), "error");
}

TEST(MatrixTest, ChecksInnerSizes) {
  Inference i({tensor({2, 3}), tensor({3, 4}), tensor({4})});
  EXPECT_EQ(i.text("aten::mm", {val(0), val(1)}), "tensor<2x4xf32, cpu>");
  EXPECT_EQ(i.text("aten::mm", {val(1), val(0)}), "error");
  EXPECT_EQ(i.text("aten::addmm", {val(2), val(0), val(1), Operand::integer(1), Operand::integer(1)}),
            "tensor<2x4xf32, cpu>");
}

TEST(ConvolutionTest, FollowsChannelsLast) {
  Inference i({strided({1, 3, 8, 8}, {192, 1, 24, 3}), tensor({16, 3, 3, 3})});
  const int64_t one[] = {1, 1}, zero[] = {0, 0}, two[] = {2, 2};
  EXPECT_EQ(i.text("aten::convolution",
                   {val(0), val(1), Operand::none(), Operand::ints(two), Operand::ints(one), Operand::ints(one),
                    Operand::boolean(false), Operand::ints(zero), Operand::integer(1)}),
            "tensor<1x16x4x4xf32, cpu, strides=[256, 1, 64, 16]>");
}

TEST(PointwiseTest, RefusesWhatTheOperatorRefuses) {
  Inference i({tensor({2}, DType::kBool), tensor({2}), tensor({})});
  EXPECT_EQ(i.text("aten::neg", {val(0)}), "error");
  EXPECT_EQ(i.text("aten::neg_", {val(0)}), "error");
  EXPECT_EQ(i.text("aten::masked_fill.Tensor", {val(1), val(0), val(1)}), "error");
  EXPECT_EQ(i.text("aten::masked_fill.Tensor", {val(1), val(0), val(2)}), "tensor<2xf32, cpu>");
  EXPECT_EQ(i.text("aten::masked_fill_.Scalar", {val(1), val(0), Operand::integer(1)}), "tensor<2xf32, cpu>");
}

TEST(IndexingTest, ScatterRefusesIndicesAndSourcesThatDoNotFit) {
  Inference i({tensor({3, 4}), tensor({2, 4}, DType::kI64), tensor({3, 4}), tensor({3, 4}, DType::kF64), tensor({4}),
               tensor({4}, DType::kI64), tensor({2, 5}, DType::kI64), tensor({0}, DType::kI64)});
  auto scatter = [&](int index, int source) {
    return i.text("aten::scatter_add", {val(0), Operand::integer(0), val(index), val(source)});
  };
  EXPECT_EQ(scatter(1, 2), "tensor<3x4xf32, cpu>");
  EXPECT_EQ(scatter(1, 3), "error");  // another type
  EXPECT_EQ(scatter(1, 4), "error");  // another rank of the source
  EXPECT_EQ(scatter(5, 2), "error");  // of the index
  EXPECT_EQ(scatter(6, 2), "error");  // more indices than elements
  EXPECT_EQ(scatter(7, 4), "tensor<3x4xf32, cpu>");
  EXPECT_EQ(i.text("aten::scatter.value", {val(0), Operand::integer(0), val(6), Operand::real(1.0)}), "error");
}

TEST(PointwiseTest, MaskedFillRefusesNumbersThatTheTypeDoesNotHold) {
  Inference i({tensor({2}, DType::kBool), tensor({2}, DType::kU8), tensor({2}, DType::kF16), tensor({2}, DType::kI64),
               tensor({2}, DType::kC64), tensor({}, DType::kC64)});
  auto fills = [&](int self, Operand value) {
    return i.text("aten::masked_fill.Scalar", {val(self), val(0), value}) != "error";
  };
  const double imaginary[] = {0, 1}, real[] = {1, 0};
  EXPECT_TRUE(fills(0, Operand::integer(2)));
  EXPECT_TRUE(fills(0, Operand::complex(imaginary)));
  EXPECT_TRUE(fills(1, Operand::integer(-255)));
  EXPECT_FALSE(fills(1, Operand::integer(-256)));
  EXPECT_FALSE(fills(1, Operand::integer(256)));
  EXPECT_FALSE(fills(1, Operand::real(-0.5)));
  EXPECT_TRUE(fills(2, Operand::real(-65504)));
  EXPECT_FALSE(fills(2, Operand::real(-1e9)));
  EXPECT_TRUE(fills(2, Operand::real(-INFINITY)));
  EXPECT_TRUE(fills(3, Operand::integer(INT64_MAX)));
  EXPECT_FALSE(fills(3, Operand::real(0x1p63)));
  EXPECT_TRUE(fills(3, Operand::real(-0x1p63)));
  EXPECT_FALSE(fills(3, Operand::real(NAN)));
  EXPECT_TRUE(fills(2, Operand::complex(real)));
  EXPECT_FALSE(fills(2, Operand::complex(imaginary)));
  EXPECT_TRUE(fills(4, Operand::complex(imaginary)));
  EXPECT_FALSE(fills(4, Operand::real(1e39)));
  EXPECT_EQ(i.text("aten::masked_fill_.Tensor", {val(2), val(0), val(5)}), "error");
}

TEST(PointwiseTest, ActivationsRefuseParametersThatThereAreNot) {
  Inference i({tensor({2}), tensor({2}, DType::kI64)});
  EXPECT_EQ(i.text("aten::gelu", {val(0), Operand::string("tanh")}), "tensor<2xf32, cpu>");
  EXPECT_EQ(i.text("aten::gelu", {val(0), Operand::string("tan")}), "error");
  EXPECT_EQ(i.text("aten::gelu_", {val(0), Operand::string("tan")}), "error");
  EXPECT_EQ(i.text("aten::gelu", {val(1), Operand::string("none")}), "error");
  EXPECT_EQ(i.text("aten::softshrink", {val(0), Operand::real(0)}), "tensor<2xf32, cpu>");
  EXPECT_EQ(i.text("aten::softshrink", {val(0), Operand::real(-0.5)}), "error");
  EXPECT_EQ(i.text("aten::softshrink", {val(0), Operand::real(NAN)}), "error");
}

TEST(RandomTest, DistributionsRefuseParametersThatTheyDoNotHave) {
  Inference i({tensor({2}), tensor({2}, DType::kI64), tensor({2}, DType::kC64)});
  auto draws = [&](std::string_view op, int self, std::vector<Operand> parameters) {
    std::vector<Operand> operands{val(self)};
    operands.insert(operands.end(), parameters.begin(), parameters.end());
    operands.push_back(Operand::none());  // the generator
    return i.text("aten::" + std::string(op), operands) != "error";
  };
  auto real = [](double value) { return Operand::real(value); };
  EXPECT_TRUE(draws("normal_", 2, {real(0), real(0)}));
  EXPECT_FALSE(draws("normal_", 0, {real(0), real(NAN)}));
  EXPECT_FALSE(draws("normal_", 1, {real(0), real(1)}));
  EXPECT_FALSE(draws("log_normal_", 0, {real(0), real(0)}));
  EXPECT_FALSE(draws("cauchy_", 0, {real(0), real(0)}));
  EXPECT_TRUE(draws("uniform_", 0, {real(1), real(1)}));
  EXPECT_FALSE(draws("uniform_", 0, {real(-3e38), real(3e38)}));
  EXPECT_FALSE(draws("uniform_", 0, {real(3), real(-1)}));
  EXPECT_FALSE(draws("exponential_", 0, {real(0)}));
  EXPECT_TRUE(draws("exponential_", 0, {real(INFINITY)}));
  EXPECT_TRUE(draws("geometric_", 1, {real(0.5)}));
  EXPECT_FALSE(draws("geometric_", 0, {real(1)}));
  EXPECT_TRUE(draws("bernoulli_.float", 1, {real(1)}));
  EXPECT_FALSE(draws("bernoulli.p", 0, {real(2)}));
  EXPECT_TRUE(draws("random_.from", 1, {Operand::integer(3), Operand::none()}));
  EXPECT_FALSE(draws("random_.from", 1, {Operand::integer(3), Operand::integer(3)}));
  EXPECT_FALSE(draws("random_.to", 1, {Operand::integer(0)}));
}

TEST(IndexingTest, IndexAddRefusesSourcesOfAnotherShape) {
  Inference i({tensor({3, 2}), tensor({2}, DType::kI64), tensor({2, 2}), tensor({2, 1}), tensor({2}), tensor({3, 2}),
               tensor({2, 2}, DType::kF64)});
  auto add = [&](int source) {
    return i.text("aten::index_add", {val(0), Operand::integer(-2), val(1), val(source), Operand::integer(1)});
  };
  EXPECT_EQ(add(2), "tensor<3x2xf32, cpu>");
  for (int source : {3, 4, 5, 6}) EXPECT_EQ(add(source), "error") << source;
  EXPECT_EQ(i.text("aten::index_add_", {val(0), Operand::integer(0), val(1), val(3), Operand::integer(1)}), "error");
}

TEST(IndexingTest, RollRefusesDimensionsThatDoNotGoWithItsShifts) {
  Inference i({tensor({3, 2}), tensor({})});
  const int64_t two[] = {1, 2}, one[] = {0};
  EXPECT_EQ(i.text("aten::roll", {val(0), Operand::ints(one), Operand::ints({})}), "tensor<3x2xf32, cpu>");
  EXPECT_EQ(i.text("aten::roll", {val(0), Operand::ints(two), Operand::ints({})}), "error");
  EXPECT_EQ(i.text("aten::roll", {val(0), Operand::ints(two), Operand::ints(one)}), "error");
  EXPECT_EQ(i.text("aten::roll", {val(0), Operand::ints(two), Operand::ints(two)}), "error");
  EXPECT_EQ(i.text("aten::roll", {val(1), Operand::ints(one), Operand::ints(one)}), "error");
  EXPECT_EQ(i.text("aten::roll", {val(1), Operand::ints(one), Operand::ints({})}), "tensor<f32, cpu>");
}

TEST(ReduceTest, KthValueRefusesMoreThanThereAre) {
  Inference i({tensor({3, 2}), tensor({})});
  auto kth = [&](int self, int64_t k) {
    return i.text("aten::kthvalue", {val(self), Operand::integer(k), Operand::integer(-1), Operand::boolean(false)});
  };
  EXPECT_EQ(kth(0, 2), "tensor<3xf32, cpu>; tensor<3xi64, cpu>");
  EXPECT_EQ(kth(1, 1), "tensor<f32, cpu>; tensor<i64, cpu>");
  for (int64_t k : {0, 3}) EXPECT_EQ(kth(0, k), "error");
}

TEST(LossTest, HuberRefusesADeltaThatIsNotPositive) {
  Inference i({tensor({3})});
  auto loss = [&](double delta) {
    return i.text("aten::huber_loss", {val(0), val(0), Operand::integer(1), Operand::real(delta)});
  };
  EXPECT_EQ(loss(0.5), "tensor<f32, cpu>");
  EXPECT_EQ(loss(0), "error");
}

TEST(ConvolutionTest, RefusesDilationsAndDivisorsOfZero) {
  Inference i({tensor({1, 1, 4, 4}), tensor({1, 1, 2, 2}), tensor({0, 1, 4, 4})});
  const int64_t zero[] = {0, 0}, one[] = {1, 1}, minus[] = {-1, -1}, two[] = {2, 2};
  auto convolve = [&](int input, std::span<const int64_t> dilation) {
    return i.text("aten::convolution",
                  {val(input), val(1), Operand::none(), Operand::ints(one), Operand::ints(zero),
                   Operand::ints(dilation), Operand::boolean(false), Operand::ints(zero), Operand::integer(1)});
  };
  EXPECT_EQ(convolve(0, zero), "error");
  EXPECT_EQ(convolve(2, minus), "error");
  EXPECT_EQ(convolve(2, zero), "no rule");
  EXPECT_EQ(i.text("aten::avg_pool2d", {val(0), Operand::ints(two), Operand::ints({}), Operand::ints(zero),
                                        Operand::boolean(false), Operand::boolean(true), Operand::integer(0)}),
            "error");
}

TEST(NormalisationTest, LayerNormRefusesScalesOfAnotherShape) {
  Inference i({tensor({2, 4}), tensor({4}), tensor({1, 4})});
  const int64_t shape[] = {4};
  auto norm = [&](Operand weight, Operand bias) {
    return i.text("aten::native_layer_norm", {val(0), Operand::ints(shape), weight, bias, Operand::real(1e-5)});
  };
  EXPECT_EQ(norm(val(1), Operand::none()), "tensor<2x4xf32, cpu>; tensor<2x1xf32, cpu>; tensor<2x1xf32, cpu>");
  EXPECT_EQ(norm(val(2), Operand::none()), "error");
  EXPECT_EQ(norm(Operand::none(), val(2)), "error");
}

TEST(CreationTest, TrianglesAreOfMatrices) {
  Inference i({tensor({4}), tensor({2, 3})});
  EXPECT_EQ(i.text("aten::triu", {val(0), Operand::integer(0)}), "error");
  EXPECT_EQ(i.text("aten::tril", {val(1), Operand::integer(0)}), "tensor<2x3xf32, cpu>");
}

TEST(InferTest, SymbolicOrSparseOperandsHaveNoRule) {
  TensorMeta sparse = tensor({2});
  sparse.layout = Layout::kSparse;
  Inference i({sparse, tensor({2})});
  EXPECT_EQ(i.text("aten::neg", {val(0)}), "no rule");
  EXPECT_EQ(i.text("aten::unsqueeze", {val(1), val(1)}), "no rule");
  OpId unknown = intern_op("mylib::unknown");
  InferOutput out;
  EXPECT_EQ(infer_meta(unknown, {}, MetaLookup(nullptr, nullptr), out), InferStatus::kNoRule);
}

TEST(InferTest, ScalesToAWholeModelInUnderAMillisecond) {
  Inference i({tensor({16, 128, 256}), tensor({256})});
  const int64_t shape[] = {256};
  OpId norm = find_op("aten::native_layer_norm"), add = find_op("aten::add.Tensor");
  std::vector<TensorMeta> metas = {tensor({16, 128, 256}), tensor({256})};
  MetaLookup lookup(&metas, [](const void* all, ValueId id) -> const TensorMeta& {
    return (*static_cast<const std::vector<TensorMeta>*>(all))[id.index()];
  });
  Operand norm_operands[] = {val(0), Operand::ints(shape), val(1), val(1), Operand::real(1e-5)};
  Operand add_operands[] = {val(0), val(0), Operand::integer(1)};
  InferOutput out;
  auto best = std::chrono::nanoseconds::max();
  for (int round = 0; round < 20; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int n = 0; n < 144; ++n) {
      ASSERT_EQ(infer_meta(norm, norm_operands, lookup, out), InferStatus::kOk);
      ASSERT_EQ(infer_meta(add, add_operands, lookup, out), InferStatus::kOk);
    }
    best =
        std::min(best, std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin));
  }
  RecordProperty("nanoseconds_for_288_operators", static_cast<int>(best.count()));
  EXPECT_LT(best, std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace framejit::graph
