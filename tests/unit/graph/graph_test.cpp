#include "graph/graph.h"

#include "graph/alias.h"
#include "graph/constant_slice.h"
#include "graph/passes/dce.h"
#include "graph/verify.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

NodeId add(Graph& graph, std::string_view op, std::vector<Operand> operands) {
  InferOutput out;
  InferStatus status = infer_meta(find_op(op), operands, MetaLookup(graph), out);
  EXPECT_EQ(status, InferStatus::kOk) << op;
  return graph.add_node(find_op(op), operands, out, graph.intern_location("model.py", "forward", 7));
}

TEST(GraphTest, PrintsNodesWithTypesAndTheUsersLine) {
  Graph graph("forward");
  ValueId x = graph.add_input(tensor({2, 3}));
  NodeId node = add(graph, "aten::mul.Tensor", {Operand::value(x), Operand::real(2.0)});
  ValueId outputs[] = {graph.node(node).result()};
  graph.set_outputs(outputs);
  EXPECT_EQ(to_text(graph),
            "graph @forward (%0: tensor<2x3xf32, cpu>) {\n"
            "  %1 = aten.mul.Tensor(%0, 2.0) : tensor<2x3xf32, cpu>  # model.py:7 in forward\n"
            "  return %1\n"
            "}\n");
}

TEST(GraphTest, KeepsItsOwnCopyOfOperandLists) {
  Graph graph;
  ValueId x = graph.add_input(tensor({2, 3, 4}));
  {
    std::vector<int64_t> dims = {2, 0, 1};
    add(graph, "aten::permute", {Operand::value(x), Operand::ints(dims)});
    dims.assign({9, 9, 9});
  }
  EXPECT_EQ(graph.node(NodeId(0)).arg(1).as_ints()[0], 2);
}

TEST(GraphTest, InternsLocationsByPlace) {
  Graph graph;
  LocationId a = graph.intern_location("a.py", "f", 1);
  EXPECT_EQ(a, graph.intern_location(std::string("a.py"), "f", 1));
  EXPECT_NE(a, graph.intern_location("a.py", "f", 2));
  EXPECT_NE(a, graph.intern_location("a.py", "f", 1, a));
}

TEST(GraphTest, TruncateForgetsLaterNodesAndValues) {
  Graph graph;
  ValueId x = graph.add_input(tensor({2}));
  add(graph, "aten::neg", {Operand::value(x)});
  size_t nodes = graph.node_count(), values = graph.value_count();
  add(graph, "aten::exp", {Operand::value(x)});
  graph.add_input(tensor({3}));
  graph.truncate(nodes, values, 1);
  EXPECT_EQ(graph.node_count(), 1u);
  EXPECT_EQ(graph.value_count(), 2u);
  EXPECT_EQ(graph.inputs().size(), 1u);
  NodeId again = add(graph, "aten::exp", {Operand::value(x)});
  EXPECT_EQ(graph.node(again).result(), ValueId(2));
}

TEST(GraphTest, CloneIsIndependent) {
  Graph graph = parsed(
      "graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>  # a.py:1 in f\n  return %1\n}\n");
  Graph copy = graph.clone();
  graph.erase(NodeId(0));
  graph.compact();
  EXPECT_EQ(copy.node_count(), 1u);
  EXPECT_EQ(to_text(copy),
            "graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>  # a.py:1 in f\n"
            "  return %1\n}\n");
}

TEST(GraphTest, KnowsWhichValuesAreRead) {
  Graph graph;
  const ValueId x = graph.add_input(tensor({2})), y = graph.add_input(tensor({2})), z = graph.add_input(tensor({2}));
  const ValueId list[] = {x};
  const ValueId stacked = graph.node(add(graph, "aten::stack", {Operand::values(list), Operand::integer(0)})).result();
  graph.erase(add(graph, "aten::neg", {Operand::value(y)}));
  const ValueId outputs[] = {stacked, ValueId()};
  graph.set_outputs(outputs);
  const std::vector<bool> read = read_values(graph);
  EXPECT_TRUE(read[x.index()]);
  EXPECT_FALSE(read[y.index()]);
  EXPECT_FALSE(read[z.index()]);
  EXPECT_TRUE(read[stacked.index()]);
}

TEST(VerifyTest, NamesTheUseOfAValueThatIsNotDefined) {
  Graph graph;
  graph.add_input(tensor({2}));
  Operand operands[] = {Operand::value(ValueId(1))};
  ResultMeta result;
  result.meta = tensor({2});
  graph.add_node(find_op("aten::neg"), operands, {&result, 1});
  EXPECT_EQ(verify(graph).value_or(""), "aten.neg(%1): operand 0: expected a value defined before, got %1");
}

TEST(VerifyTest, SaysExpectedAndGotForMetas) {
  Graph graph =
      parsed("graph @g (%0: tensor<2x3xf32, cpu>) {\n  %1 = aten.neg(%0) : tensor<3x2xf32, cpu>\n  return\n}");
  EXPECT_EQ(verify(graph).value_or(""),
            "aten.neg(%0): result 0: expected tensor<2x3xf32, cpu>, got tensor<3x2xf32, cpu>");
}

TEST(VerifyTest, ChecksOperandCountAndKinds) {
  Graph few =
      parsed("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.add.Tensor(%0) : tensor<2xf32, cpu>\n  return\n}");
  EXPECT_EQ(verify(few).value_or(""), "aten.add.Tensor(%0): expected 3 operands, got 1");
  Graph kind =
      parsed("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.permute(%0, 1.5) : tensor<2xf32, cpu>\n  return\n}");
  EXPECT_EQ(verify(kind).value_or(""), "aten.permute(%0, 1.5): operand 1 (dims): expected int[], got a float");
}

TEST(VerifyTest, ChecksAliasesByTheSchemaWhereThereIsNoRule) {
  const OpId op = intern_op("mylib::look", "mylib::look(Tensor(a) self, Tensor other) -> Tensor(a)");
  ASSERT_FALSE(has_infer_rule(op));
  auto problem = [](const std::string& alias) {
    return verify(parsed("graph @g (%0: tensor<2xf32, cpu>, %1: tensor<2xf32, cpu>) {\n  %2 = mylib.look(%0, %1) : "
                         "tensor<2xf32, cpu>" +
                         alias + "\n  return\n}"))
        .value_or("");
  };
  EXPECT_EQ(problem(" view %0"), "");
  EXPECT_EQ(problem(" view %1"), "mylib.look(%0, %1): result 0: expected a view of operand 0, got a view of operand 1");
  EXPECT_EQ(problem(" same %0"),
            "mylib.look(%0, %1): result 0: expected a view of operand 0, got the same as operand 0");
}

TEST(PrintTest, TellsTheNumbersOfItsText) {
  Graph graph;
  ValueId x = graph.add_input(tensor({2}));
  NodeId node = add(graph, "aten::neg", {Operand::value(x)});
  ValueId late = graph.add_input(tensor({2}));
  std::vector<uint32_t> numbers = text_numbers(graph);
  EXPECT_EQ(numbers[x.index()], 0u);
  EXPECT_EQ(numbers[late.index()], 1u);
  EXPECT_EQ(numbers[graph.node(node).result().index()], 2u);
  graph.erase(node);
  EXPECT_EQ(text_numbers(graph)[graph.node(node).result().index()], ValueId::kInvalid);
}

TEST(VerifyTest, AsksForLocationsWhenTold) {
  Graph graph = parsed("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>\n  return\n}");
  EXPECT_FALSE(verify(graph));
  EXPECT_EQ(verify(graph, {.require_locations = true}).value_or(""), "aten.neg(%0): expected a location, got none");
}

TEST(AliasTest, JoinsViewsAndInPlaceResultsWithTheirSource) {
  Graph graph = parsed(
      "graph @g (%0: tensor<2x3xf32, cpu>) {\n"
      "  %1 = aten.exp(%0) : tensor<2x3xf32, cpu>\n"
      "  %2 = aten.t(%1) : tensor<3x2xf32, cpu, strides=[1, 3]> view %1\n"
      "  %3 = aten.relu_(%2) : tensor<3x2xf32, cpu, strides=[1, 3]> same %2\n"
      "  return\n}\n");
  AliasClasses aliases(graph);
  EXPECT_TRUE(aliases.may_alias(ValueId(1), ValueId(3)));
  EXPECT_FALSE(aliases.may_alias(ValueId(0), ValueId(1)));
  EXPECT_TRUE(aliases.escapes(ValueId(0)));
  EXPECT_FALSE(aliases.escapes(ValueId(3)));
}

// The nodes of the slice by number, or "none".
std::string slice_of(std::string_view text, uint32_t value) {
  Graph graph = parsed(text);
  auto slice = constant_slice(graph, ValueId(value));
  if (!slice) return "none";
  std::string nodes;
  for (size_t n = 0; n < slice->size(); ++n)
    if ((*slice)[n]) nodes += std::to_string(n) + " ";
  return nodes;
}

TEST(ConstantSliceTest, HoldsWhatGoesIntoAValueAndWritesThroughItsViews) {
  std::string text =
      "graph @g (%0: tensor<2x2xf32, cpu>) {\n"
      "  %1 = aten.zeros([2, 2], none, none, cpu, false) : tensor<2x2xf32, cpu>\n"
      "  %2 = aten.t(%1) : tensor<2x2xf32, cpu, strides=[1, 2]> view %1\n"
      "  %3 = aten.fill_.Scalar(%2, 3) : tensor<2x2xf32, cpu, strides=[1, 2]> same %2\n"
      "  %4 = aten.exp(%0) : tensor<2x2xf32, cpu>\n"
      "  %5 = aten.neg(%1) : tensor<2x2xf32, cpu>\n"
      "  return %4\n}\n";
  EXPECT_EQ(slice_of(text, 5), "0 1 2 4 ");
  EXPECT_EQ(slice_of(text, 4), "none");
  EXPECT_EQ(slice_of(text, 0), "none");
}

TEST(ConstantSliceTest, HasNoInputRandomNumberOrFoundMemory) {
  std::string text =
      "graph @g (%0: tensor<2xf32, cpu>) {\n"
      "  %1 = aten.zeros([2], none, none, cpu, false) : tensor<2xf32, cpu>\n"
      "  %2 = aten.add_.Tensor(%1, %0, 1) : tensor<2xf32, cpu> same %1\n"
      "  %3 = aten.rand([2], none, none, cpu, false) : tensor<2xf32, cpu>\n"
      "  %4 = aten.empty.memory_format([2], none, none, cpu, false, none) : tensor<2xf32, cpu>\n"
      "  %5 = aten.ones([2], none, none, cpu, false) : tensor<2xf32, cpu>\n"
      "  return\n}\n";
  for (uint32_t value : {1, 2, 3, 4}) EXPECT_EQ(slice_of(text, value), "none") << value;
  EXPECT_EQ(slice_of(text, 5), "4 ");
}

std::string after_dce(std::string_view text) {
  Graph graph = parsed(text);
  eliminate_dead_code(graph);
  EXPECT_FALSE(verify(graph));
  return to_text(graph);
}

TEST(DceTest, KeepsWritesIntoInputsAndDropsWritesNobodyReads) {
  EXPECT_EQ(after_dce("graph @g (%0: tensor<2xf32, cpu>) {\n"
                      "  %1 = aten.exp(%0) : tensor<2xf32, cpu>\n"
                      "  %2 = aten.relu_(%1) : tensor<2xf32, cpu> same %1\n"
                      "  %3 = aten.neg_(%0) : tensor<2xf32, cpu> same %0\n"
                      "  return\n}\n"),
            "graph @g (%0: tensor<2xf32, cpu>) {\n"
            "  %1 = aten.neg_(%0) : tensor<2xf32, cpu> same %0\n"
            "  return\n}\n");
}

TEST(DceTest, KeepsAWriteThroughAViewThatALaterNodeReads) {
  std::string text =
      "graph @g (%0: tensor<2x2xf32, cpu>) {\n"
      "  %1 = aten.exp(%0) : tensor<2x2xf32, cpu>\n"
      "  %2 = aten.t(%1) : tensor<2x2xf32, cpu, strides=[1, 2]> view %1\n"
      "  %3 = aten.zero_(%2) : tensor<2x2xf32, cpu, strides=[1, 2]> same %2\n"
      "  %4 = aten.neg(%1) : tensor<2x2xf32, cpu>\n"
      "  return %4\n}\n";
  EXPECT_EQ(after_dce(text), text);
}

TEST(DceTest, KeepsRandomOperatorsAndOperatorsThatMayRaise) {
  std::string text =
      "graph @g (%0: tensor<4x3xf32, cpu>, %1: tensor<2xi64, cpu>) {\n"
      "  %2 = aten.rand([2], none, none, cpu, false) : tensor<2xf32, cpu>\n"
      "  %3 = aten.embedding(%0, %1, -1, false, false) : tensor<2x3xf32, cpu>\n"
      "  return\n}\n";
  EXPECT_EQ(after_dce(text), text);
}

TEST(DceTest, KeepsOperatorsOfUnknownSchema) {
  std::string text = "graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = mylib.touch(%0) : tensor<2xf32, cpu>\n  return\n}\n";
  EXPECT_EQ(after_dce(text), text);
}

TEST(ParseTest, SaysWhereAndWhatWasExpected) {
  auto error = [](std::string_view text) {
    auto result = parse_graph(text);
    return result ? std::string("parsed") : result.error().to_string();
  };
  EXPECT_EQ(error("graph @g (%0: tensor<2xf99, cpu>) {\n  return\n}"), "1:27: expected an element type, got 'f99'");
  EXPECT_EQ(error("graph @g () {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>\n  return\n}"),
            "2:19: expected a defined value, got %0");
  EXPECT_EQ(error("graph @g () {\n  return\n"), "3:1: expected '}', got the end");
  EXPECT_EQ(error("graph @g (%0: tensor<2xf32, cpu>, %0: tensor<2xf32, cpu>) {\n  return\n}"),
            "1:57: expected a new value, got %0 again");
}

TEST(ParseTest, SaysWhereAnOperatorStandsThatNobodyKnows) {
  auto known = [](std::string_view name) { return name == "aten::neg"; };
  const std::string text =
      "graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = aten.neg(%0) : tensor<2xf32, cpu>\n  return\n}\n";
  EXPECT_TRUE(parse_graph(text, known));
  EXPECT_TRUE(
      parse_graph("graph @g () {\n  %0 = framejit.constant(const<0>) : tensor<2xf32, cpu>\n  return\n}", known));
  auto refused =
      parse_graph("graph @g (%0: tensor<2xf32, cpu>) {\n  %1 = my.neg(%0) : tensor<2xf32, cpu>\n  return\n}", known);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().to_string(), "2:8: expected an operator of LibTorch, got 'my::neg'");
}

}  // namespace
}  // namespace framejit::graph
