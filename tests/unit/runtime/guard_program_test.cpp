#include "runtime/guards/guard_program.h"

#include "graph/number.h"
#include "tests/unit/runtime/python_fixture.h"
#include "tracer/set_table.h"

namespace framejit::runtime {
namespace {

using graph::GuardKind;
using graph::SourceId;
using graph::SourceKind;

class GuardProgramTest : public PythonTest {
 protected:
  graph::ConstId object(PyObject* obj) { return pool_.add(obj); }
  graph::ConstId object(const char* expression) {
    Ref value = eval(expression);
    return pool_.add(value.get());
  }
  SourceId local(uint32_t slot) { return capture_.sources.local(slot); }
  SourceId item(SourceId dict, const char* key) {
    return capture_.sources.keyed(SourceKind::kDictItem, dict, object(key));
  }
  SourceId instance_dict(SourceId base) { return capture_.sources.read(SourceKind::kInstanceDict, base); }
  void guard(GuardKind kind, SourceId source, graph::ConstId obj = {}, uint64_t number = 0, SourceId other = {}) {
    capture_.guards.add({kind, source, obj, other, number});
  }
  void compile() {
    table_ = std::make_unique<ConstTable>(pool_);
    program_ = std::make_unique<GuardProgram>(capture_, *table_, TensorGuards{});
  }
  bool check(std::vector<PyObject*> slots) {
    OwnedValues owned;
    return program_->check({slots.data(), nullptr}, owned) == GuardAnswer::kHit;
  }

  graph::Capture capture_;
  ObjectPool pool_;
  std::unique_ptr<ConstTable> table_;
  std::unique_ptr<GuardProgram> program_;
};

TEST_F(GuardProgramTest, ComparesTypeAndEqualData) {
  guard(GuardKind::kTypeIs, local(0), object("float"));
  guard(GuardKind::kEquals, local(0), object("0.0"));
  compile();
  EXPECT_TRUE(check({eval("0.0").get()}));
  EXPECT_FALSE(check({eval("-0.0").get()}));
  EXPECT_EQ(program_->failed_guard(), 1u);
  EXPECT_FALSE(check({eval("0").get()}));
  EXPECT_EQ(program_->failed_guard(), 0u);
}

TEST_F(GuardProgramTest, ComparesNanByItsBits) {
  guard(GuardKind::kEquals, local(0), object("(1, float('nan'))"));
  compile();
  EXPECT_TRUE(check({eval("(1, float('nan'))").get()}));
  EXPECT_FALSE(check({eval("(True, float('nan'))").get()}));
}

TEST_F(GuardProgramTest, ComparesANumberWithAnother) {
  constexpr graph::NumberComparison kLess{Py_LT, true}, kNoneEqual{Py_EQ, false};
  guard(GuardKind::kCompares, local(0), object("2"), kLess.packed());
  guard(GuardKind::kCompares, local(0), object("0.5"), kNoneEqual.packed());
  compile();
  for (const char* value : {"1.0", "-0.0", "float('-inf')", "1.9999"}) EXPECT_TRUE(check({eval(value).get()})) << value;
  for (const char* value : {"2.0", "float('nan')", "1", "True", "'a'"}) {
    EXPECT_FALSE(check({eval(value).get()})) << value;
    EXPECT_EQ(program_->failed_guard(), 0u);
  }
  EXPECT_FALSE(check({eval("0.5").get()}));
  EXPECT_EQ(program_->failed_guard(), 1u);
  EXPECT_FALSE(check({nullptr}));
}

TEST_F(GuardProgramTest, ComparesNumbersInADictionaryThatChanges) {
  exec("d = {'a': 1.0}");
  guard(GuardKind::kTypeIs, local(0), object("dict"));
  guard(GuardKind::kCompares, item(local(0), "'a'"), object("0.0"), graph::NumberComparison{Py_GT, true}.packed());
  compile();
  for (int i = 0; i < 20; ++i) {
    exec(("d['a'] = " + std::to_string(i + 1) + ".0").c_str());
    EXPECT_TRUE(check({name("d")}));
    EXPECT_TRUE(check({name("d")}));
  }
  exec("d['a'] = -1.0");
  EXPECT_FALSE(check({name("d")}));
  exec("d['a'] = float('nan')");
  EXPECT_FALSE(check({name("d")}));
  exec("d['a'] = 3.0");
  EXPECT_TRUE(check({name("d")}));
}

TEST_F(GuardProgramTest, ReadsAMissingValueAsUnbound) {
  guard(GuardKind::kUnbound, local(0));
  guard(GuardKind::kNotUnbound, local(1));
  compile();
  EXPECT_TRUE(check({nullptr, Py_None}));
  EXPECT_FALSE(check({Py_None, Py_None}));
  EXPECT_FALSE(check({nullptr, nullptr}));
}

TEST_F(GuardProgramTest, SeesAnAttributeChangeAndItsReturn) {
  exec("class C: pass\nc = C()\nc.a = 1\nc.b = 2");
  SourceId dict = instance_dict(local(0));
  guard(GuardKind::kTypeIs, local(0), object("C"));
  guard(GuardKind::kEquals, item(dict, "'a'"), object("1"));
  compile();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(check({name("c")}));
  exec("c.b = 3");
  EXPECT_TRUE(check({name("c")}));
  exec("c.a = 7");
  EXPECT_FALSE(check({name("c")}));
  exec("c.a = 1");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(check({name("c")}));
  exec("del c.a");
  EXPECT_FALSE(check({name("c")}));
}

TEST_F(GuardProgramTest, SeesChangesThroughInstanceAttributeWritesOnWarmCode) {
  exec(
      "class C:\n  def __init__(self): self.a = 1; self.b = 2\n"
      "def write(o, v): o.a = v\n"
      "for i in range(100): write(C(), i)\n"
      "c = C()");
  guard(GuardKind::kEquals, item(instance_dict(local(0)), "'a'"), object("1"));
  compile();
  EXPECT_TRUE(check({name("c")}));
  EXPECT_TRUE(check({name("c")}));
  exec("write(c, 9)");
  EXPECT_FALSE(check({name("c")}));
  exec("write(c, 1)");
  EXPECT_TRUE(check({name("c")}));
}

TEST_F(GuardProgramTest, FollowsAReplacedInstanceDictionary) {
  exec("class C: pass\nc = C()\nc.a = 1");
  guard(GuardKind::kEquals, item(instance_dict(local(0)), "'a'"), object("1"));
  compile();
  EXPECT_TRUE(check({name("c")}));
  exec("c.__dict__ = {'a': 2}");
  EXPECT_FALSE(check({name("c")}));
  exec("c.__dict__ = {'a': 1}");
  EXPECT_TRUE(check({name("c")}));
}

TEST_F(GuardProgramTest, FollowsATreeOfObjects) {
  exec("class C: pass\na = C(); a.b = C(); a.b.c = C(); a.b.c.x = 5");
  SourceId b = item(instance_dict(local(0)), "'b'");
  SourceId c = item(instance_dict(b), "'c'");
  guard(GuardKind::kTypeIs, b, object("C"));
  guard(GuardKind::kTypeIs, c, object("C"));
  guard(GuardKind::kEquals, item(instance_dict(c), "'x'"), object("5"));
  compile();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(check({name("a")}));
  exec("a.b.c.x = 6");
  EXPECT_FALSE(check({name("a")}));
  exec("a.b.c.x = 5");
  EXPECT_TRUE(check({name("a")}));
  exec("class D: pass\na.b.__class__ = D");
  EXPECT_FALSE(check({name("a")}));
  exec("a.b.__class__ = C; old = a.b; a.b = C(); a.b.c = C(); a.b.c.x = 6");
  EXPECT_FALSE(check({name("a")}));
  exec("a.b.c.x = 5");
  EXPECT_TRUE(check({name("a")}));
}

TEST_F(GuardProgramTest, TellsWhichOfSeveralLengthsIsWrong) {
  exec("class C: pass\nc = C()\nc.a = {}; c.b = {}; c.c = {1: 2}");
  SourceId dict = instance_dict(local(0));
  for (const char* key : {"'a'", "'b'", "'c'"}) guard(GuardKind::kTypeIs, item(dict, key), object("dict"));
  guard(GuardKind::kLength, item(dict, "'a'"), {}, 0);
  guard(GuardKind::kLength, item(dict, "'b'"), {}, 0);
  guard(GuardKind::kLength, item(dict, "'c'"), {}, 1);
  compile();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(check({name("c")}));
  exec("c.b[3] = 4");
  EXPECT_FALSE(check({name("c")}));
  EXPECT_EQ(program_->failed_guard(), 4u);
  exec("del c.b[3]; c.c.clear()");
  EXPECT_FALSE(check({name("c")}));
  EXPECT_EQ(program_->failed_guard(), 5u);
  exec("c.c[0] = 0");
  EXPECT_TRUE(check({name("c")}));
}

TEST_F(GuardProgramTest, ReadsTheLengthOfADictionaryOnlyAfterItsTypeIsKnown) {
  guard(GuardKind::kLength, local(0), {}, 0);
  guard(GuardKind::kTypeIs, local(0), object("dict"));
  compile();
  EXPECT_TRUE(check({eval("{}").get()}));
  EXPECT_FALSE(check({eval("7").get()}));
  EXPECT_EQ(program_->failed_guard(), 1u);
}

TEST_F(GuardProgramTest, SeesTheOrderOfAnOrderedDict) {
  exec("import collections\nd = collections.OrderedDict(a=1, b=2, c=3)");
  guard(GuardKind::kTypeIs, local(0), object("collections.OrderedDict"));
  guard(GuardKind::kDictKeys, local(0), object("('a', 'b', 'c')"));
  guard(GuardKind::kEquals, item(local(0), "'b'"), object("2"));
  compile();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(check({name("d")}));
  exec("d.move_to_end('b'); d.move_to_end('c')");
  EXPECT_TRUE(check({name("d")}));
  exec("d.move_to_end('a')");
  EXPECT_FALSE(check({name("d")}));
  exec("d.move_to_end('b'); d.move_to_end('c')");
  EXPECT_TRUE(check({name("d")}));
  exec("d['b'] = 5");
  EXPECT_FALSE(check({name("d")}));
}

TEST_F(GuardProgramTest, WatchesAbsentKeys) {
  exec("g = {'x': 1}");
  guard(GuardKind::kHasNoKey, capture_.sources.constant(object("g")), object("'y'"));
  compile();
  EXPECT_TRUE(check({}));
  exec("g['z'] = 1");
  EXPECT_TRUE(check({}));
  exec("g['y'] = 1");
  EXPECT_FALSE(check({}));
  exec("del g['y']");
  EXPECT_TRUE(check({}));
}

TEST_F(GuardProgramTest, SeesTheOrderOfAnOrderedDictChange) {
  exec("import collections\nd = collections.OrderedDict(a=1, b=2)");
  guard(GuardKind::kDictKeys, local(0), object("('a', 'b')"));
  compile();
  EXPECT_TRUE(check({name("d")}));
  EXPECT_TRUE(check({name("d")}));
  exec("d.move_to_end('a')");
  EXPECT_FALSE(check({name("d")}));
  exec("d.move_to_end('b')");
  EXPECT_TRUE(check({name("d")}));
}

TEST_F(GuardProgramTest, SeesAChangeOfBases) {
  exec(
      "class A: pass\nclass B: pass\nclass C(A): pass\nmro = b''.join(id(k).to_bytes(8, 'little') for k in C.__mro__)");
  guard(GuardKind::kMroIs, capture_.sources.constant(object("C")), object("mro"));
  compile();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(check({}));
  exec("C.__bases__ = (B,)");
  EXPECT_FALSE(check({}));
  exec("C.__bases__ = (B, A)");
  EXPECT_FALSE(check({}));
  exec("C.__bases__ = (A,)");
  EXPECT_TRUE(check({}));
}

TEST_F(GuardProgramTest, SeesATypeAttributeChangeInABase) {
  exec("class A:\n  x = 1\nclass B(A): pass");
  SourceId type = capture_.sources.constant(object("B"));
  guard(GuardKind::kTypeAttrIs, capture_.sources.keyed(SourceKind::kTypeAttr, type, object("'x'")), object("A.x"));
  guard(GuardKind::kTypeAttrAbsent, type, object("'y'"));
  compile();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(check({}));
  exec("A.y = 1");
  EXPECT_FALSE(check({}));
  exec("del A.y");
  EXPECT_TRUE(check({}));
  exec("B.x = 2");
  EXPECT_FALSE(check({}));
  exec("del B.x");
  EXPECT_TRUE(check({}));
}

TEST_F(GuardProgramTest, ReadsListsTuplesCellsAndFunctions) {
  exec("def f(a, b=[3]): pass\nl = [(1, 2)]");
  SourceId pair = capture_.sources.item(SourceKind::kListItem, local(0), 0);
  guard(GuardKind::kEquals, capture_.sources.item(SourceKind::kTupleItem, pair, 1), object("2"));
  SourceId defaults = capture_.sources.read(SourceKind::kFunctionDefaults, local(1));
  guard(GuardKind::kIdIs, capture_.sources.item(SourceKind::kTupleItem, defaults, 0), object("f.__defaults__[0]"));
  SourceId closure = capture_.sources.read(SourceKind::kFunctionClosure, local(1));
  guard(GuardKind::kIdIs, closure, object("None"));
  compile();
  EXPECT_TRUE(check({name("l"), name("f")}));
  exec("l[0] = (1, 3)");
  EXPECT_FALSE(check({name("l"), name("f")}));
  exec("l[0] = (1, 2); f.__defaults__ = ([3],)");
  EXPECT_FALSE(check({name("l"), name("f")}));
  exec("l.clear()");
  EXPECT_FALSE(check({name("l"), name("f")}));
}

TEST_F(GuardProgramTest, ComparesSetsByTypeOfTheirItems) {
  guard(GuardKind::kTypeIs, local(0), object("set"));
  guard(GuardKind::kSetGives, local(0), object("(1, 2)"), table_shape(eval("{2, 1}").get()));
  compile();
  EXPECT_TRUE(check({eval("{2, 1}").get()}));
  EXPECT_FALSE(check({eval("{2, True}").get()}));
  EXPECT_FALSE(check({eval("frozenset({2, 1})").get()}));
}

TEST_F(GuardProgramTest, ComparesSetsInTheirOrder) {
  exec("sparse = set(range(1000)) - set(range(990)); sparse = set(range(1000)); sparse -= set(range(990))");
  guard(GuardKind::kSetGives, local(0), object("tuple(sparse)"), table_shape(name("sparse")));
  compile();
  EXPECT_TRUE(check({name("sparse")}));
  EXPECT_FALSE(check({eval("set(range(990, 1000))").get()}));
}

TEST_F(GuardProgramTest, ReadsSlotsOfAClassAsOwnedValues) {
  exec("class C:\n  __slots__ = ('v',)\nc = C(); c.v = 10**30");
  SourceId value = capture_.sources.keyed(SourceKind::kAttr, local(0), object("'v'"));
  guard(GuardKind::kEquals, value, object("10**30"));
  compile();
  EXPECT_TRUE(check({name("c")}));
  exec("c.v = 1");
  EXPECT_FALSE(check({name("c")}));
  exec("del c.v");
  EXPECT_FALSE(check({name("c")}));
}

TEST_F(GuardProgramTest, AValueThatTheReplayNeedsMustBeThere) {
  graph::Recipe recipe;
  recipe.kind = graph::RecipeKind::kSource;
  recipe.source = item(instance_dict(local(0)), "'a'");
  capture_.recipes.add(recipe);
  exec("class C: pass\nc = C()");
  compile();
  EXPECT_FALSE(check({name("c")}));
  EXPECT_EQ(program_->failed_guard(), 0u);
  exec("c.a = 1");
  EXPECT_TRUE(check({name("c")}));
}

TEST_F(GuardProgramTest, TellsObjectsApart) {
  guard(GuardKind::kSameObject, local(0), {}, 0, local(1));
  guard(GuardKind::kNotSameObject, local(0), {}, 0, local(2));
  compile();
  Ref a = eval("[]"), b = eval("[]");
  EXPECT_TRUE(check({a.get(), a.get(), b.get()}));
  EXPECT_FALSE(check({a.get(), b.get(), b.get()}));
  EXPECT_FALSE(check({a.get(), a.get(), a.get()}));
}

TEST_F(GuardProgramTest, TellsSetsOfObjectsApart) {
  for (uint32_t i : {0u, 1u, 2u}) guard(GuardKind::kApart, local(i), {}, 0);
  for (uint32_t i : {2u, 3u, 4u}) guard(GuardKind::kApart, local(i), {}, 1);
  compile();
  Ref a = eval("[]"), b = eval("[]"), c = eval("[]"), d = eval("[]"), e = eval("[]");
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(check({a.get(), b.get(), c.get(), d.get(), e.get()}));
  EXPECT_FALSE(check({a.get(), b.get(), a.get(), d.get(), e.get()}));
  EXPECT_FALSE(check({a.get(), b.get(), c.get(), d.get(), c.get()}));
  EXPECT_TRUE(check({a.get(), b.get(), c.get(), a.get(), b.get()}));  // of different sets
}

}  // namespace
}  // namespace framejit::runtime
