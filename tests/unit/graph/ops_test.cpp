#include "graph/generated/op_ids.h"
#include "graph/op.h"
#include "graph/op_table.h"
#include "tests/unit/graph/test_support.h"

namespace framejit::graph {
namespace {

TEST(OpTest, GeneratedIdsNameTheirRows) {
  EXPECT_EQ(find_op("aten::add.Tensor"), ops::k_add_Tensor);
  EXPECT_EQ(op_name(ops::k_native_layer_norm), "aten::native_layer_norm");
  EXPECT_TRUE(has_infer_rule(ops::k_add_Tensor));
}

TEST(OpTest, EveryRowHasASchemaThatParses) {
  for (uint32_t i = 0; i < kOpRowCount; ++i) {
    const OpInfo& info = op_info(OpId(i));
    EXPECT_FALSE(info.parsed.returns.empty()) << info.schema;
    EXPECT_FALSE(info.has(kOpSideEffect)) << info.schema;
  }
}

TEST(OpTest, InPlaceOperatorsAreKnownFromTheSchema) {
  const OpInfo& info = op_info(find_op("aten::add_.Tensor"));
  EXPECT_TRUE(info.has(kOpInPlace) && info.has(kOpMutates) && !info.has(kOpView));
  EXPECT_TRUE(info.writes_arg(0));
  EXPECT_FALSE(info.writes_arg(1));
  EXPECT_EQ(info.aliased_arg(0), 0);
  EXPECT_TRUE(op_info(find_op("aten::view")).has(kOpView));
}

TEST(OpTest, InternsUnknownOperatorsWithTheirSchema) {
  OpId op = intern_op("mylib::scale_", "mylib::scale_(Tensor(a!) x, float by=1.5) -> ()");
  EXPECT_EQ(op, intern_op("mylib::scale_"));
  EXPECT_TRUE(op_info(op).has(kOpMutates));
  EXPECT_FALSE(has_infer_rule(op));
  EXPECT_FALSE(find_op("mylib::never_seen").valid());
}

TEST(SchemaTest, ReadsTypesDefaultsAndAliases) {
  auto schema = parse_schema(
      "aten::f.out(Tensor(a -> *) self, int[2] size=[1, 1], *, str mode=\"a,b\", Tensor?[] parts, "
      "Tensor(b!) out) -> (Tensor(a)[], Tensor(b!) out)");
  ASSERT_TRUE(schema);
  ASSERT_EQ(schema->args.size(), 5u);
  EXPECT_EQ(schema->args[0].alias_set, 'a');
  EXPECT_EQ(schema->args[1].type, "int[2]");
  EXPECT_EQ(schema->args[1].default_text, "[1, 1]");
  EXPECT_EQ(schema->args[2].default_text, "\"a,b\"");
  EXPECT_TRUE(schema->args[2].keyword_only);
  EXPECT_TRUE(schema->args[3].is_tensor_list());
  EXPECT_TRUE(schema->args[4].written);
  EXPECT_EQ(schema->returns[0].type, "Tensor[]");
  EXPECT_EQ(schema->returns[1].name, "out");
  EXPECT_FALSE(parse_schema("no schema"));
}

}  // namespace
}  // namespace framejit::graph
