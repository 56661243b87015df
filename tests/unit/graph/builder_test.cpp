#include "graph/builder.h"

#include "graph/generated/builders.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

// A graph under construction whose steps must succeed.
class Building {
 public:
  Graph graph{"built"};
  Builder builder{graph};

  ValueId input(const Ints& sizes, DType dtype = DType::kF32) { return builder.input(sizes, dtype); }

  template <class T>
  T made(Result<T, BuildError> result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : T{};
  }
  // The graph's text, which must verify and read back to itself.
  std::string text(std::initializer_list<ValueId> outputs) {
    graph.set_outputs({outputs.begin(), outputs.size()});
    EXPECT_EQ(verify(graph).value_or(""), "");
    std::string text = to_text(graph);
    EXPECT_EQ(to_text(parsed(text)), text);
    return text;
  }
};

template <class T>
std::string error_of(const Result<T, BuildError>& result) {
  return result.ok() ? "built" : result.error().message;
}

TEST(BuilderTest, PointwiseChainHasDefaultsAndTheUsersLine) {
  Building b;
  b.builder.set_location(b.graph.intern_location("model.py", "forward", 7));
  ValueId x = b.input({2, 3}), bias = b.input({3}, DType::kF64);
  ValueId sum = b.made(ops::add(b.builder, x, bias));
  ValueId scaled = b.made(ops::mul(b.builder, sum, 0.5));
  ValueId result = b.made(ops::clamp(b.builder, scaled, Scalar(0)));
  EXPECT_EQ(b.text({result}),
            "graph @built (%0: tensor<2x3xf32, cpu>, %1: tensor<3xf64, cpu>) {\n"
            "  %2 = aten.add.Tensor(%0, %1, 1) : tensor<2x3xf64, cpu>  # model.py:7 in forward\n"
            "  %3 = aten.mul.Tensor(%2, 0.5) : tensor<2x3xf64, cpu>  # model.py:7 in forward\n"
            "  %4 = aten.clamp(%3, 0, none) : tensor<2x3xf64, cpu>  # model.py:7 in forward\n"
            "  return %4\n"
            "}\n");
}

TEST(BuilderTest, MatrixProductsAndScalarsOfAllKinds) {
  Building b;
  ValueId x = b.input({2, 3}), w = b.input({3, 4}), bias = b.input({4});
  ValueId product = b.made(ops::addmm(b.builder, bias, x, w, 2, 0.5));
  ValueId turned = b.made(ops::mul(b.builder, product, std::complex<double>(0, 1)));
  EXPECT_EQ(b.text({turned}),
            "graph @built (%0: tensor<2x3xf32, cpu>, %1: tensor<3x4xf32, cpu>, %2: tensor<4xf32, cpu>) {\n"
            "  %3 = aten.addmm(%2, %0, %1, 2, 0.5) : tensor<2x4xf32, cpu>\n"
            "  %4 = aten.mul.Tensor(%3, complex(0.0, 1.0)) : tensor<2x4xc64, cpu>\n"
            "  return %4\n"
            "}\n");
}

TEST(BuilderTest, LayerNormGivesThreeResults) {
  Building b;
  ValueId x = b.input({2, 4}), weight = b.input({4});
  auto [normed, mean, rstd] = b.made(ops::native_layer_norm(b.builder, x, {4}, weight, std::nullopt, 1e-5));
  EXPECT_EQ(b.text({normed, mean, rstd}),
            "graph @built (%0: tensor<2x4xf32, cpu>, %1: tensor<4xf32, cpu>) {\n"
            "  %2, %3, %4 = aten.native_layer_norm(%0, [4], %1, none, 1e-05) : tensor<2x4xf32, cpu>, "
            "tensor<2x1xf32, cpu>, tensor<2x1xf32, cpu>\n"
            "  return %2, %3, %4\n"
            "}\n");
}

TEST(BuilderTest, ViewsAndInPlaceOperatorsSayWhatTheyAlias) {
  Building b;
  ValueId x = b.input({2, 3});
  ValueId turned = b.made(ops::permute(b.builder, x, {1, 0}));
  ValueId same = b.made(ops::add_(b.builder, turned, 1));
  ValueId filled = b.made(ops::fill_scalar_(b.builder, same, 2.5));
  EXPECT_EQ(b.text({filled}),
            "graph @built (%0: tensor<2x3xf32, cpu>) {\n"
            "  %1 = aten.permute(%0, [1, 0]) : tensor<3x2xf32, cpu, strides=[1, 3]> view %0\n"
            "  %2 = aten.add_.Tensor(%1, 1, 1) : tensor<3x2xf32, cpu, strides=[1, 3]> same %1\n"
            "  %3 = aten.fill_.Scalar(%2, 2.5) : tensor<3x2xf32, cpu, strides=[1, 3]> same %2\n"
            "  return %3\n"
            "}\n");
}

TEST(BuilderTest, ListsOfTensorsGoInAndComeOut) {
  Building b;
  ValueId x = b.input({4, 2}), index = b.input({3}, DType::kI64);
  std::vector<ValueId> halves = b.made(ops::split(b.builder, x, 2));
  ASSERT_EQ(halves.size(), 2u);
  ValueId joined = b.made(ops::cat(b.builder, {halves[1], halves[0]}, 1));
  ValueId picked = b.made(ops::index(b.builder, joined, {ValueId(), index}));
  EXPECT_EQ(b.text({picked}),
            "graph @built (%0: tensor<4x2xf32, cpu>, %1: tensor<3xi64, cpu>) {\n"
            "  %2, %3 = aten.split.Tensor(%0, 2, 0) : tensor<2x2xf32, cpu> view %0, "
            "tensor<2x2xf32, cpu, offset=4> view %0\n"
            "  %4 = aten.cat([%3, %2], 1) : tensor<2x4xf32, cpu>\n"
            "  %5 = aten.index.Tensor(%4, [none, %1]) : tensor<2x3xf32, cpu>\n"
            "  return %5\n"
            "}\n");
}

TEST(BuilderTest, DefaultsOfListsHaveTheLengthOfTheSchema) {
  Building b;
  ValueId x = b.input({1, 3, 8, 8});
  auto [pooled, indices] = b.made(ops::max_pool2d_with_indices(b.builder, x, {2, 2}));
  ValueId zeros = b.made(ops::zeros(b.builder, {2}, DType::kF16, std::nullopt, Device{DeviceType::kCuda, 0}));
  ValueId numbers = b.made(ops::randint(b.builder, 10, {2}));
  EXPECT_EQ(b.text({pooled, indices, zeros, numbers}),
            "graph @built (%0: tensor<1x3x8x8xf32, cpu>) {\n"
            "  %1, %2 = aten.max_pool2d_with_indices(%0, [2, 2], [], [0, 0], [1, 1], false) : "
            "tensor<1x3x4x4xf32, cpu>, tensor<1x3x4x4xi64, cpu>\n"
            "  %3 = aten.zeros([2], f16, none, cuda:0, none) : tensor<2xf16, cuda:0>\n"
            "  %4 = aten.randint(10, [2], i64, none, none, none) : tensor<2xi64, cpu>\n"
            "  return %1, %2, %3, %4\n"
            "}\n");
}

TEST(BuilderTest, ErrorsSayExpectedAndGotAndAddNothing) {
  Building b;
  ValueId x = b.input({2, 3}), y = b.input({2, 3});
  EXPECT_EQ(error_of(ops::mm(b.builder, x, y)),
            "aten.mm(%0, %1): expected arguments that aten::mm(Tensor self, Tensor mat2) -> Tensor takes, got "
            "%0: tensor<2x3xf32, cpu>, %1: tensor<2x3xf32, cpu>");
  EXPECT_EQ(error_of(ops::take(b.builder, x, y)),
            "aten.take(%0, %1): expected an operator with an inference rule, got one without");
  EXPECT_EQ(error_of(ops::neg(b.builder, ValueId(7))),
            "aten.neg(%7): operand 0 (self): expected a value of the graph, which has 2, got %7");
  EXPECT_NE(error_of(ops::neg(b.builder, ValueId())).find("got an invalid id"), std::string::npos);
  Operand one[] = {Operand::value(x)};
  EXPECT_EQ(error_of(b.builder.add(find_op("aten::mm"), one)), "aten.mm(%0): expected 2 operands, got 1");
  Operand wrong[] = {Operand::value(x), Operand::real(1.5)};
  EXPECT_EQ(error_of(b.builder.add(find_op("aten::permute"), wrong)),
            "aten.permute(%0, 1.5): operand 1 (dims): expected int[], got a float");
  EXPECT_EQ(b.graph.node_count(), 0u);
}

TEST(BuilderTest, ArgumentsThatARuleDoesNotKnowNameTheWayOut) {
  Building b;
  TensorMeta sparse = tensor({2});
  sparse.layout = Layout::kSparse;
  ValueId x = b.builder.input(sparse);
  EXPECT_EQ(error_of(ops::neg(b.builder, x)),
            "aten.neg(%0): expected arguments that its inference rule knows, got %0: " + to_string(sparse) +
                "; add it with Graph::add_node");
}

TEST(BuilderTest, InfersInItsEnvironment) {
  Graph graph;
  InferEnvironment environment;
  environment.default_dtype = DType::kF64;
  Builder builder(graph, environment);
  Result<ValueId, BuildError> ones = ops::ones(builder, {2});
  ASSERT_TRUE(ones.ok());
  EXPECT_EQ(to_string(graph.meta(*ones)), "tensor<2xf64, cpu>");
}

}  // namespace
}  // namespace framejit::graph
