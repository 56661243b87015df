#include "graph/control_flow.h"

#include "graph/split.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

// A cond whose bodies and call are given.
std::string cond_text(const std::string& then, const std::string& call) {
  return "graph @f (%0: tensor<bool, cpu>, %1: tensor<3xf32, cpu>) {\n"
         "  graph @then.0 " +
         then +
         "  graph @otherwise.0 (%0: tensor<3xf32, cpu>) {\n"
         "    %1 = aten.cos(%0) : tensor<3xf32, cpu>\n"
         "    return %1\n"
         "  }\n"
         "  %2 = framejit.cond(" +
         call + ") : tensor<3xf32, cpu>\n  return %2\n}\n";
}

constexpr const char* kSine =
    "(%0: tensor<3xf32, cpu>) {\n    %1 = aten.sin(%0) : tensor<3xf32, cpu>\n    return %1\n  }\n";
constexpr const char* kCall = "%0, @then.0, @otherwise.0, [%1], [%1]";

std::string violation(const std::string& text) { return verify(parsed(text)).value_or("none"); }

TEST(ControlFlowTest, AcceptsBodiesThatTakeAndGiveWhatTheirNodeHandsThem) {
  EXPECT_EQ(violation(cond_text(kSine, kCall)), "none");
}

TEST(ControlFlowTest, TellsWhatABodyDoesNotTake) {
  EXPECT_NE(violation(cond_text(kSine, "%0, @then.0, @otherwise.0, [%0], [%1]"))
                .find("the operands of @then.0: expected tensor<3xf32, cpu> at 0, got tensor<bool, cpu>"),
            std::string::npos);
  EXPECT_NE(violation(cond_text(kSine, "%0, @then.0, @otherwise.0, values[], [%1]")).find("expected 1 tensors, got 0"),
            std::string::npos);
}

TEST(ControlFlowTest, TellsWhatABodyDoesNotGive) {
  const std::string two =
      "(%0: tensor<3xf32, cpu>) {\n    %1 = aten.sum(%0, none) : tensor<f32, cpu>\n    return %1\n  }\n";
  EXPECT_NE(violation(cond_text(two, kCall)).find("the outputs of @then.0: expected tensor<3xf32, cpu> at 0"),
            std::string::npos);
}

TEST(ControlFlowTest, LooksIntoBodies) {
  const std::string wrong =
      "(%0: tensor<3xf32, cpu>) {\n    %1 = aten.sin(%0) : tensor<4xf32, cpu>\n    return %1\n  }\n";
  EXPECT_EQ(violation(cond_text(wrong, kCall)).substr(0, 12), "in @then.0: ");
}

TEST(ControlFlowTest, RefusesBodiesThatWriteOrGiveWhatIsOutside) {
  const std::string writes =
      "(%0: tensor<3xf32, cpu>) {\n    %1 = aten.sin_(%0) : tensor<3xf32, cpu> same %0\n"
      "    %2 = aten.cos(%1) : tensor<3xf32, cpu>\n    return %2\n  }\n";
  EXPECT_NE(violation(cond_text(writes, kCall)).find("aten::sin_ writes a tensor from outside"), std::string::npos);
  const std::string gives = "(%0: tensor<3xf32, cpu>) {\n    return %0\n  }\n";
  EXPECT_NE(violation(cond_text(gives, kCall)).find("shares the memory of, a tensor from outside"), std::string::npos);
  const std::string draws =
      "(%0: tensor<3xf32, cpu>) {\n    %1 = aten.rand_like(%0, none, none, none, none, none) : tensor<3xf32, cpu>\n"
      "    return %1\n  }\n";
  EXPECT_NE(violation(cond_text(draws, kCall)).find("draws random numbers"), std::string::npos);
}

TEST(ControlFlowTest, ATextNamesOnlyBodiesThatStandBefore) {
  auto graph = parse_graph(cond_text(kSine, "%0, @then.1, @otherwise.0, [%1], [%1]"));
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().to_string().find("expected a graph that stands before, got @then.1"), std::string::npos);
}

TEST(SplitTest, CapturesWhatWasThereBeforeAndInputsOfTheWhole) {
  Graph whole = parsed(
      "graph @f (%0: tensor<3xf32, cpu>, %1: tensor<3xf32, cpu>) {\n"
      "  %2 = aten.sin(%0) : tensor<3xf32, cpu>  # a.py:1 in f\n"
      "  %3 = aten.add.Tensor(%2, %1, 1) : tensor<3xf32, cpu>  # a.py:2 in f\n"
      "  %4 = aten.mul.Tensor(%3, %2) : tensor<3xf32, cpu>  # a.py:3 in f\n"
      "  return %4\n}\n");
  const ValueId outputs[] = {ValueId(4), ValueId()};
  Split split = split_off(whole, {.name = "end", .first_node = 1, .first_value = 3, .outputs = outputs});
  EXPECT_EQ(to_text(split.graph),
            "graph @end (%0: tensor<3xf32, cpu>, %1: tensor<3xf32, cpu>) {\n"
            "  %2 = aten.add.Tensor(%0, %1, 1) : tensor<3xf32, cpu>  # a.py:2 in f\n"
            "  %3 = aten.mul.Tensor(%2, %0) : tensor<3xf32, cpu>  # a.py:3 in f\n"
            "  return %3\n}\n");
  EXPECT_EQ(split.captured, (std::vector<ValueId>{ValueId(2), ValueId(1)}));
  EXPECT_FALSE(split.outputs[1].valid());
}

}  // namespace
}  // namespace framejit::graph
