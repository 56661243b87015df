#include "graph/passes/contents.h"

#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

bool has_kernel(const Graph&, const Node&) { return true; }
bool has_no_kernel(const Graph&, const Node&) { return false; }

struct Checked {
  std::string text;
  std::vector<uint32_t> at_end;
  std::vector<uint32_t> unknown;  // values whose class has been written in another way
};

Checked contents(std::string_view text, HasKernel kernel = has_kernel) {
  const Graph graph = parsed(text);
  const AliasClasses aliases(graph);
  const Contents made = contents_of(graph, aliases, kernel);
  Checked checked{to_text(made.graph), {}, {}};
  for (uint32_t i = 0; i < graph.value_count(); ++i) {
    checked.at_end.push_back(made.at_end[i].value);
    if (made.unknown[aliases.of(ValueId(i))]) checked.unknown.push_back(i);
  }
  return checked;
}

TEST(ContentsTest, WritesToWhatTheGraphMakesAreOperators) {
  const Checked made = contents(
      "graph @g (%0: tensor<4x4xf32, cpu>) {\n"
      "  %1 = aten.mm(%0, %0) : tensor<4x4xf32, cpu>\n"
      "  %2 = aten.clone(%1, none) : tensor<4x4xf32, cpu>\n"
      "  %3 = aten.relu_(%1) : tensor<4x4xf32, cpu> same %1\n"
      "  %4 = aten.add_.Tensor(%1, %2, 1) : tensor<4x4xf32, cpu> same %1\n"
      "  %5 = aten.mm(%1, %2) : tensor<4x4xf32, cpu>\n"
      "  return %5\n"
      "}\n");
  EXPECT_EQ(made.text,
            "graph @g (%0: tensor<4x4xf32, cpu>) {\n"
            "  %1 = aten.mm(%0, %0) : tensor<4x4xf32, cpu>\n"
            "  %2 = aten.relu(%1) : tensor<4x4xf32, cpu>\n"
            "  %3 = aten.add.Tensor(%2, %1, 1) : tensor<4x4xf32, cpu>\n"
            "  %4 = aten.mm(%3, %1) : tensor<4x4xf32, cpu>\n"
            "  return\n"
            "}\n");
  EXPECT_EQ(made.at_end, (std::vector<uint32_t>{0, 3, 1, 3, 3, 4}));
  EXPECT_TRUE(made.unknown.empty());
}

TEST(ContentsTest, WhatAViewShowsIsNotKnownOnceItIsWritten) {
  const Checked made = contents(
      "graph @g (%0: tensor<4x4xf32, cpu>) {\n"
      "  %1 = aten.mm(%0, %0) : tensor<4x4xf32, cpu>\n"
      "  %2 = aten.sin(%1) : tensor<4x4xf32, cpu>\n"
      "  %3 = aten.select.int(%1, 0, 0) : tensor<4xf32, cpu> view %1\n"
      "  %4 = aten.relu_(%3) : tensor<4xf32, cpu> same %3\n"
      "  %5 = aten.sin(%1) : tensor<4x4xf32, cpu>\n"
      "  return %5\n"
      "}\n");
  EXPECT_EQ(made.unknown, (std::vector<uint32_t>{1, 3, 4}));
  EXPECT_EQ(made.text,
            "graph @g (%0: tensor<4x4xf32, cpu>, %1: tensor<4x4xf32, cpu>, %2: tensor<4xf32, cpu>, "
            "%3: tensor<4xf32, cpu>) {\n"
            "  %4 = aten.mm(%0, %0) : tensor<4x4xf32, cpu>\n"
            "  %5 = aten.sin(%4) : tensor<4x4xf32, cpu>\n"
            "  %6 = aten.select.int(%4, 0, 0) : tensor<4xf32, cpu> view %4\n"
            "  %7 = aten.relu_(%6) : tensor<4xf32, cpu> same %6\n"
            "  %8 = aten.sin(%1) : tensor<4x4xf32, cpu>\n"
            "  return\n"
            "}\n");
}

TEST(ContentsTest, AnInputThatIsWrittenIsAnotherOneAfterwards) {
  const Checked made = contents(
      "graph @g (%0: tensor<4xf32, cpu>) {\n"
      "  %1 = aten.clone(%0, none) : tensor<4xf32, cpu>\n"
      "  %2 = aten.relu_(%0) : tensor<4xf32, cpu> same %0\n"
      "  %3 = aten.sin(%0) : tensor<4xf32, cpu>\n"
      "  return %3\n"
      "}\n");
  EXPECT_EQ(made.unknown, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(made.at_end[1], 0u);
  EXPECT_NE(made.at_end[0], 0u);
}

// The write keeps the type of what it writes, the operator gives the promoted one.
TEST(ContentsTest, AnOperatorOfAnotherTypeIsNoSubstitute) {
  const Checked made = contents(
      "graph @g (%0: tensor<4xf32, cpu>, %1: tensor<4xf64, cpu>) {\n"
      "  %2 = aten.sin(%0) : tensor<4xf32, cpu>\n"
      "  %3 = aten.add_.Tensor(%2, %1, 1) : tensor<4xf32, cpu> same %2\n"
      "  return %3\n"
      "}\n");
  EXPECT_EQ(made.unknown, (std::vector<uint32_t>{2, 3}));
}

constexpr std::string_view kBatchNorm =
    "graph @g (%0: tensor<2x3x4x4xf32, cpu>, %1: tensor<3xf32, cpu>, %2: tensor<3xf32, cpu>) {\n"
    "  %3, %4, %5 = aten.native_batch_norm(%0, %1, none, %2, %2, true, 0.1, 1e-05) : tensor<2x3x4x4xf32, cpu>, "
    "tensor<3xf32, cpu>, tensor<3xf32, cpu>\n"
    "  return %3\n"
    "}\n";

TEST(ContentsTest, BatchNormIsComputedOfItsStatistics) {
  const Checked made = contents(kBatchNorm);
  EXPECT_EQ(made.text,
            "graph @g (%0: tensor<2x3x4x4xf32, cpu>, %1: tensor<3xf32, cpu>, %2: tensor<3xf32, cpu>, "
            "%3: tensor<3xf32, cpu>, %4: tensor<3xf32, cpu>) {\n"
            "  %5, %6, %7 = aten.native_batch_norm(%0, %1, none, %2, %2, true, 0.1, 1e-05) : "
            "tensor<2x3x4x4xf32, cpu>, tensor<3xf32, cpu>, tensor<3xf32, cpu>\n"
            "  %8 = aten.view(%6, [3, 1, 1]) : tensor<3x1x1xf32, cpu> view %6\n"
            "  %9 = aten.sub.Tensor(%0, %8, 1) : tensor<2x3x4x4xf32, cpu>\n"
            "  %10 = aten.mul.Tensor(%7, %1) : tensor<3xf32, cpu>\n"
            "  %11 = aten.view(%10, [3, 1, 1]) : tensor<3x1x1xf32, cpu> view %10\n"
            "  %12 = aten.mul.Tensor(%9, %11) : tensor<2x3x4x4xf32, cpu>\n"
            "  return\n"
            "}\n");
  EXPECT_EQ(made.at_end, (std::vector<uint32_t>{0, 1, 12, 10, 4, 5}));
  EXPECT_EQ(contents(kBatchNorm, has_no_kernel).at_end[3], 3u);
}

}  // namespace
}  // namespace framejit::graph
