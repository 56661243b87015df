#include "runtime/call/bind.h"

#include "bytecode/decoded_code.h"
#include "tests/unit/runtime/python_fixture.h"

namespace framejit::runtime {
namespace {

class BindTest : public PythonTest {
 protected:
  // Binds `args` and `kwargs` to `f`; the slots' values as a list, cells opened, "unbound" for null. None: it does not
  // fit.
  Ref bind(const char* args, const char* kwargs = "{}") {
    auto* function = reinterpret_cast<PyFunctionObject*>(name("f"));
    auto code = bytecode::decode(function->func_code);
    ArgumentBinder binder(*code);
    Ref positional = eval(args), keywords = eval(kwargs);
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional.get()); ++i)
      values.push_back(PyTuple_GET_ITEM(positional.get(), i));
    const Py_ssize_t nargs = PyTuple_GET_SIZE(positional.get());
    Ref names = Ref::steal(PyDict_Keys(keywords.get()));
    names = Ref::steal(PyList_AsTuple(names.get()));
    Py_ssize_t at = 0;
    for (PyObject *key, *value; PyDict_Next(keywords.get(), &at, &key, &value);) values.push_back(value);
    std::vector<PyObject*> slots(binder.slot_count());
    BoundObjects objects;
    if (!binder.bind(function, values.data(), nargs, PyTuple_GET_SIZE(names.get()) ? names.get() : nullptr,
                     slots.data(), objects))
      return Ref::borrow(Py_None);
    Ref unbound = eval("'unbound'");
    Ref list = Ref::steal(PyList_New(0));
    for (PyObject* slot : slots) {
      PyObject* shown = slot && PyCell_Check(slot) ? PyCell_GET(slot) : slot;
      PyList_Append(list.get(), shown ? shown : unbound.get());
    }
    return list;
  }
  void expect(const char* args, const char* kwargs, const char* slots) {
    set("got", bind(args, kwargs).get());
    set("want", eval(slots).get());
    EXPECT_TRUE(holds("got == want")) << PyUnicode_AsUTF8(eval("repr((got, want))").get());
  }
};

TEST_F(BindTest, Positional) {
  exec("def f(a, b): c = 1");
  expect("(1, 2)", "{}", "[1, 2, 'unbound']");
  expect("(1,)", "{}", "None");
  expect("(1, 2, 3)", "{}", "None");
}

TEST_F(BindTest, KeywordsAndDefaults) {
  exec("def f(a, b=5, *, c, d=7): pass");
  expect("(1,)", "{'c': 3}", "[1, 5, 3, 7]");
  expect("(1, 2)", "{'d': 4, 'c': 3}", "[1, 2, 3, 4]");
  expect("()", "{'c': 3, 'a': 1}", "[1, 5, 3, 7]");
  expect("(1,)", "{}", "None");
  expect("(1,)", "{'a': 2, 'c': 3}", "None");
  expect("(1,)", "{'c': 2, 'e': 3}", "None");
}

TEST_F(BindTest, KeywordNamesThatAreEqualButNotIdentical) {
  exec("def f(alpha): pass");
  expect("()", "{''.join(['al', 'pha']): 1}", "[1]");
}

TEST_F(BindTest, VariableArguments) {
  exec("def f(a, *rest, k=1, **more): pass");
  expect("(1, 2, 3)", "{'k': 4, 'z': 5}", "[1, 4, (2, 3), {'z': 5}]");
  expect("(1,)", "{}", "[1, 1, (), {}]");
}

TEST_F(BindTest, PositionalOnlyNamesAreFreeForKeywords) {
  exec("def f(a, /, **more): pass");
  expect("(1,)", "{'a': 2}", "[1, {'a': 2}]");
  exec("def f(a, /, b): pass");
  expect("(1,)", "{'a': 2, 'b': 3}", "None");
}

TEST_F(BindTest, CellsAndFreeVariables) {
  exec("def make():\n  free = 9\n  def f(a, b):\n    def g(): return a, free\n    return g\n  return f\nf = make()");
  Ref slots = bind("(1, 2)");
  set("got", slots.get());
  EXPECT_TRUE(holds("sorted(x for x in got if x != 'unbound') == [1, 2, 9]"));
}

}  // namespace
}  // namespace framejit::runtime
