// The builder's vocabulary, run for real on the interpreter at hand.
#include "bytecode/code_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"

namespace framejit::bytecode {
namespace {

class CodeBuilderTest : public testing::Test {
 protected:
  // The function that `source` calls f, in fresh globals.
  Ref function(const char* source) {
    globals_ = Ref::steal(PyDict_New());
    PyDict_SetItemString(globals_.get(), "__builtins__", PyEval_GetBuiltins());
    const Ref done = Ref::steal(PyRun_String(source, Py_file_input, globals_.get(), globals_.get()));
    if (!done) PyErr_Print();
    return Ref::borrow(PyDict_GetItemString(globals_.get(), "f"));
  }
  static DecodedCodePtr decoded(const Ref& function) { return decode(PyFunction_GetCode(function.get())); }
  // Calls a function of `code` with these arguments and gives the result as text.
  std::string run(const Ref& code, const Ref& args) {
    if (!code) PyErr_Print();
    const Ref made = Ref::steal(PyFunction_New(code.get(), globals_.get()));
    const Ref result = Ref::steal(PyObject_Call(made.get(), args.get(), nullptr));
    if (!result) {
      PyErr_Print();
      return "error";
    }
    return PyUnicode_AsUTF8(Ref::steal(PyObject_Repr(result.get())).get());
  }
  Ref global(const char* name) { return Ref::borrow(PyDict_GetItemString(globals_.get(), name)); }
  static Ref ints(std::initializer_list<long> values) {
    Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    Py_ssize_t i = 0;
    for (long value : values) PyTuple_SET_ITEM(tuple.get(), i++, PyLong_FromLong(value));
    return tuple;
  }

  Ref globals_;
};

TEST_F(CodeBuilderTest, CallsAConstantWithArgumentsUnderneath) {
  const Ref f = function("def g(a, b, c): return [a, b, c]\ndef f(x): return x");
  for (int argc = 0; argc <= 3; ++argc) {
    CodeBuilder builder(decoded(f));
    builder.copy_prologue();
    builder.set_context(builder.body_start());
    for (int i = 0; i < argc; ++i) builder.load_int(i);
    builder.call_const(argc == 3 ? global("g") : Ref::borrow(reinterpret_cast<PyObject*>(&PyComplex_Type)), argc);
    builder.return_value();
    EXPECT_EQ(run(builder.finish(), ints({7})), argc == 0 ? "0j" : argc == 1 ? "0j" : argc == 2 ? "1j" : "[0, 1, 2]");
  }
}

TEST_F(CodeBuilderTest, PermutesTheStack) {
  const Ref f = function("def f(): return 0");
  for (int n = 2; n <= 4; ++n) {
    for (bool rot : {false, true}) {
      CodeBuilder builder(decoded(f));
      builder.copy_prologue();
      for (int i = 0; i < 4; ++i) builder.load_int(i);
      rot ? builder.rot(n) : builder.swap(n);
      builder.build_tuple(4);
      builder.return_value();
      std::vector<long> values = {0, 1, 2, 3};
      if (rot) {
        std::rotate(values.end() - n, values.end() - 1, values.end());
      } else {
        std::swap(values[3], values[4 - n]);
      }
      EXPECT_EQ(run(builder.finish(), ints({})),
                fmt::format("({}, {}, {}, {})", values[0], values[1], values[2], values[3]));
    }
  }
}

TEST_F(CodeBuilderTest, BranchesOnSmallNumbers) {
  const Ref f = function("def f(x): return x");
  CodeBuilder builder(decoded(f));
  builder.copy_prologue();
  const Label one = builder.new_label();
  const Label many = builder.new_label();
  builder.load_fast(0);
  builder.branch_if_equal(1, one);
  builder.branch_if_equal(1000, many);
  builder.return_value();
  builder.bind(one);
  builder.pop_top();
  builder.load_int(-1);
  builder.return_value();
  builder.bind(many);
  builder.pop_top();
  builder.load_none();
  builder.return_value();
  const Ref code = builder.finish();
  EXPECT_EQ(run(code, ints({1})), "-1");
  EXPECT_EQ(run(code, ints({2})), "2");
  EXPECT_EQ(run(code, ints({1000})), "None");
}

TEST_F(CodeBuilderTest, LoweredMethodLoadsLeaveNull) {
  const Ref f = function("def f(x):\n  return x.bit_length() + x.__add__(1)");
  const DecodedCodePtr base = decoded(f);
  CodeBuilder builder(base);
  for (uint32_t i = 0; i < base->size(); ++i) {
    if (base->instructions[i].op == SimOp::kLoadMethod) {
      builder.copy_method_load_lowered(InstrIndex(i));
    } else {
      builder.copy(InstrIndex(i));
    }
  }
  EXPECT_EQ(run(builder.finish(), ints({12})), "17");
}

TEST_F(CodeBuilderTest, UnpacksSoThatTheFirstIsOnTop) {
  const Ref f = function("def f(): return 0");
  CodeBuilder builder(decoded(f));
  builder.copy_prologue();
  builder.load_const(ints({1, 2, 3}));
  builder.unpack_sequence(3);
  builder.build_tuple(3);
  builder.return_value();
  EXPECT_EQ(run(builder.finish(), ints({})), "(3, 2, 1)");
}

TEST_F(CodeBuilderTest, EntersBodyInTheMiddleOfATry) {
  const Ref f =
      function("def f(x):\n  try:\n    y = 1\n    return y // x\n  except ZeroDivisionError:\n    return 'caught'");
  const DecodedCodePtr base = decoded(f);
  uint32_t entry = 0;
  while (base->instructions[entry].op != SimOp::kStoreFast) ++entry;
  const InstrIndex at(entry);
  CodeBuilder builder(base);
  builder.copy_prologue();
  builder.set_context(at);
  builder.leave_region();
  for (const Block& block : base->blocks(at)) builder.setup_finally(builder.label_of(block.handler));
  builder.load_int(10);
  builder.jump(builder.label_of(at));
  for (uint32_t i = builder.body_start().value; i < base->size(); ++i) builder.copy(InstrIndex(i));
  const Ref code = builder.finish();
  EXPECT_EQ(run(code, ints({3})), "3");
  EXPECT_EQ(run(code, ints({0})), "'caught'");
}

TEST_F(CodeBuilderTest, RefusesAStackThatUnderflows) {
  const Ref f = function("def f(): return 0");
  CodeBuilder builder(decoded(f));
  builder.copy_prologue();
  builder.pop_top();
  builder.load_none();
  builder.return_value();
  EXPECT_THROW(builder.finish(), InternalError);
}

}  // namespace
}  // namespace framejit::bytecode
