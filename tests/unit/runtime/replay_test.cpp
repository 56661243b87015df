#include "runtime/replay/replay.h"

#include "tests/unit/runtime/python_fixture.h"

namespace framejit::runtime {
namespace {

using graph::EffectKind;
using graph::Recipe;
using graph::RecipeId;
using graph::RecipeKind;

class ReplayTest : public PythonTest {
 protected:
  RecipeId constant(const char* expression) {
    Ref value = eval(expression);
    Recipe recipe;
    recipe.kind = RecipeKind::kConst;
    recipe.object = pool_.add(value.get());
    return capture_.recipes.add(recipe);
  }
  RecipeId local(uint32_t slot) {
    Recipe recipe;
    recipe.kind = RecipeKind::kSource;
    recipe.source = capture_.sources.local(slot);
    return capture_.recipes.add(recipe);
  }
  RecipeId make(RecipeKind kind, const std::vector<RecipeId>& parts, const char* type = nullptr, uint32_t index = 0) {
    RecipeId id = capture_.recipes.reserve();
    fill(id, kind, parts, type, index);
    return id;
  }
  void fill(RecipeId id, RecipeKind kind, const std::vector<RecipeId>& parts, const char* type = nullptr,
            uint32_t index = 0) {
    Recipe recipe;
    recipe.kind = kind;
    recipe.index = index;
    if (type) recipe.object = pool_.add(eval(type).get());
    capture_.recipes.set(id, recipe, parts);
  }
  void effect(EffectKind kind, RecipeId target, RecipeId key = {}, RecipeId value = {},
              std::vector<RecipeId> values = {}) {
    capture_.effects.push_back({kind, target, key, value, std::move(values)});
  }
  // Applies the effects, builds the recipe and binds it to `r`.
  void replay(RecipeId result, std::vector<PyObject*> slots = {}) {
    ConstTable table(pool_);
    GuardProgram guards(capture_, table, TensorGuards{});
    ReplayPlan plan(capture_, table);
    OwnedValues owned;
    ASSERT_EQ(guards.check({slots.data(), nullptr}, owned), GuardAnswer::kHit);
    Replay replay(plan, guards);
    ASSERT_TRUE(replay.apply_effects());
    Ref value = replay.build(result);
    if (!value) PyErr_Print();
    ASSERT_TRUE(value);
    set("r", value.get());
  }

  graph::Capture capture_;
  ObjectPool pool_;
};

TEST_F(ReplayTest, BuildsContainersAndKeepsIdentity) {
  RecipeId inner = make(RecipeKind::kList, {constant("1"), constant("'a'")});
  RecipeId key = constant("'k'");
  RecipeId dict = make(RecipeKind::kDict, {key, inner});
  RecipeId set = make(RecipeKind::kSet, {constant("3")});
  replay(make(RecipeKind::kTuple, {inner, inner, dict, set}));
  EXPECT_TRUE(holds("r == ([1, 'a'], [1, 'a'], {'k': [1, 'a']}, {3})"));
  EXPECT_TRUE(holds("r[0] is r[1] and r[2]['k'] is r[0]"));
}

TEST_F(ReplayTest, BuildsCycles) {
  RecipeId list = capture_.recipes.reserve();
  RecipeId tuple = make(RecipeKind::kTuple, {list, constant("5")});
  fill(list, RecipeKind::kList, {tuple, list});
  replay(list);
  EXPECT_TRUE(holds("r[1] is r and r[0][0] is r and r[0][1] == 5"));
}

TEST_F(ReplayTest, BuildsObjectsWithoutRunningTheirCode) {
  exec(
      "class C:\n"
      "  def __new__(cls, a, b): raise AssertionError\n"
      "  def __init__(self): raise AssertionError\n"
      "  def __setattr__(self, k, v): raise AssertionError\n"
      "  @property\n"
      "  def p(self): return 'property'\n"
      "  @p.setter\n"
      "  def p(self, v): raise AssertionError\n");
  replay(make(RecipeKind::kObject, {constant("'x'"), constant("1"), constant("'p'"), constant("2")}, "C"));
  EXPECT_TRUE(holds("type(r) is C and r.__dict__ == {'x': 1, 'p': 2} and r.p == 'property'"));
}

TEST_F(ReplayTest, BuildsObjectsWithSlots) {
  exec("class S:\n  __slots__ = ('x',)");
  replay(make(RecipeKind::kObject, {constant("'x'"), constant("1")}, "S"));
  EXPECT_TRUE(holds("r.x == 1"));
}

TEST_F(ReplayTest, HashesObjectsOnlyWhenTheyAreWhole) {
  exec("class K:\n  def __hash__(self): return self.h\n  def __eq__(self, o): return self.h == o.h");
  RecipeId key = make(RecipeKind::kObject, {constant("'h'"), constant("11")}, "K");
  RecipeId set = make(RecipeKind::kSet, {key});
  replay(make(RecipeKind::kTuple,
              {make(RecipeKind::kDict, {key, constant("1")}), set, make(RecipeKind::kFrozenSet, {key})}));
  EXPECT_TRUE(holds("[hash(k) for k in r[0]] == [11] and [k.h for k in r[1]] == [11] and len(r[2]) == 1"));
}

TEST_F(ReplayTest, BuildsSubclassesOfContainers) {
  exec(
      "import collections\nP = collections.namedtuple('P', 'a b')\nclass L(list): pass\n"
      "O = collections.OrderedDict");
  RecipeId tuple = make(RecipeKind::kTypedTuple, {constant("1"), constant("2")}, "P");
  RecipeId list = make(RecipeKind::kTypedList, {constant("7"), constant("'tag'"), constant("'t'")}, "L", 1);
  RecipeId dict =
      make(RecipeKind::kTypedDict, {constant("'z'"), constant("1"), constant("'a'"), constant("2")}, "O", 2);
  replay(make(RecipeKind::kTuple, {tuple, list, dict}));
  EXPECT_TRUE(holds("type(r[0]) is P and r[0].b == 2"));
  EXPECT_TRUE(holds("type(r[1]) is L and r[1] == [7] and r[1].tag == 't'"));
  EXPECT_TRUE(holds("type(r[2]) is O and list(r[2].items()) == [('z', 1), ('a', 2)]"));
}

TEST_F(ReplayTest, BuildsFunctionsAndCells) {
  exec("def outer():\n  n = 1\n  def inner(a, b=2): return n + a + b\n  return inner\nf = outer()");
  RecipeId cell = make(RecipeKind::kCell, {constant("100")});
  RecipeId closure = make(RecipeKind::kTuple, {cell});
  RecipeId unbound = make(RecipeKind::kUnbound, {});
  RecipeId globals = constant("globals()");
  replay(make(RecipeKind::kFunction,
              {constant("f.__code__"), globals, constant("'q.name'"), constant("(5,)"), unbound, closure, unbound}));
  EXPECT_TRUE(holds("r(1) == 106 and r.__qualname__ == 'q.name'"));
}

TEST_F(ReplayTest, CallsConstructorsAndSetsStates) {
  RecipeId items = make(RecipeKind::kList, {constant("1"), constant("2"), constant("3")});
  RecipeId iterator = make(RecipeKind::kCall, {constant("iter"), items});
  replay(make(RecipeKind::kSetState, {iterator, constant("1")}));
  EXPECT_TRUE(holds("next(r) == 2"));
}

TEST_F(ReplayTest, AdvancesAnIteratorThatStillNoticesChanges) {
  exec("d = {'a': 1, 'b': 2, 'c': 3}");
  RecipeId iterator = make(RecipeKind::kCall, {constant("iter"), constant("d")});
  replay(make(RecipeKind::kAdvance, {iterator}, nullptr, 1));
  exec("seen = [next(r)]; d['z'] = 1\ntry: next(r)\nexcept RuntimeError: seen.append('changed')");
  EXPECT_TRUE(holds("seen == ['b', 'changed']"));
}

TEST_F(ReplayTest, AppliesEffectsInOrder) {
  exec(
      "class C: pass\nc = C(); d = {'a': 1, 'b': 2}; l = [1, 2]; s = {1}\nimport collections\nq = "
      "collections.deque([1])");
  RecipeId list = make(RecipeKind::kList, {constant("9")});
  effect(EffectKind::kSetAttr, local(0), constant("'x'"), list);
  effect(EffectKind::kDictSet, local(1), constant("'c'"), list);
  effect(EffectKind::kDictDelete, local(1), constant("'a'"));
  effect(EffectKind::kListReplace, local(2), {}, {}, {list, list});
  effect(EffectKind::kSetReplace, local(3), {}, make(RecipeKind::kSet, {constant("4"), constant("5")}));
  effect(EffectKind::kDequeReplace, local(4), {}, {}, {constant("6")});
  replay(list, {name("c"), name("d"), name("l"), name("s"), name("q")});
  EXPECT_TRUE(holds("c.x is r and list(d.items()) == [('b', 2), ('c', r)] and d['c'] is r"));
  EXPECT_TRUE(holds("l == [[9], [9]] and l[0] is r and s == {4, 5} and list(q) == [6]"));
}

TEST_F(ReplayTest, ReplacesDictionariesInTheirOrder) {
  exec("import collections\nd = collections.OrderedDict(a=1)\ne = {'q': 1}");
  std::vector<RecipeId> pairs = {constant("'z'"), constant("1"), constant("'b'"), constant("2")};
  effect(EffectKind::kDictReplace, local(0), {}, {}, pairs);
  effect(EffectKind::kDictReplace, local(1), {}, {}, pairs);
  replay(constant("None"), {name("d"), name("e")});
  EXPECT_TRUE(holds("list(d.items()) == [('z', 1), ('b', 2)] == list(e.items())"));
}

TEST_F(ReplayTest, SetsAndEmptiesCells) {
  Ref full = Ref::steal(PyCell_New(Py_None)), other = Ref::steal(PyCell_New(Py_None));
  effect(EffectKind::kCellSet, local(0), {}, constant("42"));
  effect(EffectKind::kCellSet, local(1), {}, make(RecipeKind::kUnbound, {}));
  replay(constant("None"), {full.get(), other.get()});
  EXPECT_EQ(PyLong_AsLong(PyCell_GET(full.get())), 42);
  EXPECT_EQ(PyCell_GET(other.get()), nullptr);
}

TEST_F(ReplayTest, CallsGlobalSetters) {
  exec("log = []\ndef setter(*a): log.append(a)");
  effect(EffectKind::kCall, constant("setter"), {}, {}, {constant("1"), constant("2")});
  replay(constant("None"));
  EXPECT_TRUE(holds("log == [(1, 2)]"));
}

TEST_F(ReplayTest, LeavesNoReferencesBehind) {
  exec("import sys\nclass C: pass\nc = C()");
  RecipeId list = make(RecipeKind::kList, {local(0), local(0)});
  PyObject* c = name("c");
  const Py_ssize_t before = Py_REFCNT(c);
  replay(list, {c});
  exec("del r");
  EXPECT_EQ(Py_REFCNT(c), before);
}

}  // namespace
}  // namespace framejit::runtime
