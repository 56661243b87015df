// Operators on simulated values: real ones where the operands' code is C, the special methods inlined where it is
// Python.
#include <algorithm>

#include "tracer/simulator.h"

namespace framejit {

using bytecode::BinaryKind;
using bytecode::CompareKind;
using bytecode::UnaryKind;

namespace {

struct BinaryRow {
  binaryfunc function, in_place;
  const char *method, *reflected, *in_place_method;
};

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// In the order of BinaryKind.
const BinaryRow kBinary[] = {
    {PyNumber_Add, PyNumber_InPlaceAdd, "__add__", "__radd__", "__iadd__"},
    {PyNumber_And, PyNumber_InPlaceAnd, "__and__", "__rand__", "__iand__"},
    {PyNumber_FloorDivide, PyNumber_InPlaceFloorDivide, "__floordiv__", "__rfloordiv__", "__ifloordiv__"},
    {PyNumber_Lshift, PyNumber_InPlaceLshift, "__lshift__", "__rlshift__", "__ilshift__"},
    {PyNumber_MatrixMultiply, PyNumber_InPlaceMatrixMultiply, "__matmul__", "__rmatmul__", "__imatmul__"},
    {PyNumber_Multiply, PyNumber_InPlaceMultiply, "__mul__", "__rmul__", "__imul__"},
    {PyNumber_Remainder, PyNumber_InPlaceRemainder, "__mod__", "__rmod__", "__imod__"},
    {PyNumber_Or, PyNumber_InPlaceOr, "__or__", "__ror__", "__ior__"},
    {power, in_place_power, "__pow__", "__rpow__", "__ipow__"},
    {PyNumber_Rshift, PyNumber_InPlaceRshift, "__rshift__", "__rrshift__", "__irshift__"},
    {PyNumber_Subtract, PyNumber_InPlaceSubtract, "__sub__", "__rsub__", "__isub__"},
    {PyNumber_TrueDivide, PyNumber_InPlaceTrueDivide, "__truediv__", "__rtruediv__", "__itruediv__"},
    {PyNumber_Xor, PyNumber_InPlaceXor, "__xor__", "__rxor__", "__ixor__"},
};

const char* const kCompare[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
const char* const kCompareReflected[] = {"__gt__", "__ge__", "__eq__", "__ne__", "__lt__", "__le__"};
const char* const kUnary[] = {"__pos__", "__neg__", nullptr, "__invert__"};

// Operators that move the elements of their operands and call nothing of them.
bool moves_elements_only(BinaryKind kind, PyObject* left, PyObject* right) {
  const auto is_sequence = [](PyObject* obj) { return PyTuple_CheckExact(obj) || PyList_CheckExact(obj); };
  if (kind == BinaryKind::kAdd) return is_sequence(left) && is_sequence(right);
  if (kind == BinaryKind::kMultiply)
    return (is_sequence(left) && PyLong_CheckExact(right)) || (PyLong_CheckExact(left) && is_sequence(right));
  return false;
}

bool implemented(const std::optional<SymValue>& result) { return result && result->get() != Py_NotImplemented; }

}  // namespace

SymValue Simulator::binary(BinaryKind kind, bool in_place, SymValue left, SymValue right) {
  const BinaryRow& row = kBinary[static_cast<size_t>(kind)];
  realise(left);
  realise(right);
  if (has_python_specials(left.get()) || has_python_specials(right.get())) {
    if (in_place) {
      auto result = call_special(left.get(), row.in_place_method, {right});
      if (implemented(result)) return *result;
    }
    bool right_first =
        Py_TYPE(right.get()) != Py_TYPE(left.get()) && PyType_IsSubtype(Py_TYPE(right.get()), Py_TYPE(left.get()));
    for (int side = 0; side < 2; ++side) {
      bool reflected = (side == 0) == right_first;
      auto result =
          reflected ? call_special(right.get(), row.reflected, {left}) : call_special(left.get(), row.method, {right});
      if (implemented(result)) return *result;
    }
    stop(StopReason::kUnsupportedValue,
         fmt::format("{} of '{}' and '{}'", row.method, Py_TYPE(left.get())->tp_name, Py_TYPE(right.get())->tp_name));
  }
  if (!moves_elements_only(kind, left.get(), right.get())) require_plain(CallArgs{{left, right}, {}}, nullptr);
  mark_location();
  return from_real(check((in_place ? row.in_place : row.function)(left.get(), right.get())));
}

SymValue Simulator::unary(UnaryKind kind, SymValue operand) {
  if (kind == UnaryKind::kNot) return SymValue::borrow(truth(operand) ? Py_False : Py_True);
  realise(operand);
  if (has_python_specials(operand.get()))
    if (auto result = call_special(operand.get(), kUnary[static_cast<size_t>(kind)], {})) return *result;
  require_plain(CallArgs{{operand}, {}}, nullptr);
  mark_location();
  auto function = kind == UnaryKind::kPositive   ? PyNumber_Positive
                  : kind == UnaryKind::kNegative ? PyNumber_Negative
                                                 : PyNumber_Invert;
  return from_real(check(function(operand.get())));
}

namespace {

// No value of one of these types equals one of another, whatever they contain.
bool are_unequal_by_type(PyObject* left, PyObject* right) {
  PyTypeObject* const apart[] = {&PyList_Type, &PyTuple_Type,   &PyDict_Type,
                                 &PyLong_Type, &PyUnicode_Type, Py_TYPE(Py_None)};
  auto is_one = [&](PyObject* obj) {
    return std::find(std::begin(apart), std::end(apart), Py_TYPE(obj)) != std::end(apart);
  };
  return Py_TYPE(left) != Py_TYPE(right) && is_one(left) && is_one(right);
}

}  // namespace

SymValue Simulator::compare(CompareKind kind, SymValue left, SymValue right) {
  const int op = static_cast<int>(kind);
  const bool equality = kind == CompareKind::kEqual || kind == CompareKind::kNotEqual;
  realise(left);
  realise(right);
  if (has_python_specials(left.get()) || has_python_specials(right.get())) {
    bool right_first =
        Py_TYPE(right.get()) != Py_TYPE(left.get()) && PyType_IsSubtype(Py_TYPE(right.get()), Py_TYPE(left.get()));
    for (int side = 0; side < 2; ++side) {
      bool reflected = (side == 0) == right_first;
      auto result = reflected ? call_special(right.get(), kCompareReflected[op], {left})
                              : call_special(left.get(), kCompare[op], {right});
      if (implemented(result)) return *result;
    }
    if (kind == CompareKind::kNotEqual) {
      auto equal = call_special(left.get(), "__eq__", {right});
      if (implemented(equal)) return SymValue::borrow(truth(*equal) ? Py_False : Py_True);
    }
    if (equality) {
      bool same = is_same(left, right);
      return SymValue::borrow(same == (kind == CompareKind::kEqual) ? Py_True : Py_False);
    }
    stop(StopReason::kUnsupportedValue,
         fmt::format("comparison of '{}' and '{}'", Py_TYPE(left.get())->tp_name, Py_TYPE(right.get())->tp_name));
  }
  if (equality && are_unequal_by_type(left.get(), right.get()))
    return SymValue::borrow(kind == CompareKind::kEqual ? Py_False : Py_True);
  CallArgs args{{left, right}, {}};
  require_plain(args, nullptr);
  mark_location();
  if (is_outside_opaque(left.get()) && is_outside_opaque(right.get()) && op >= Py_EQ) is_same(left, right);
  return from_real(check(PyObject_RichCompare(left.get(), right.get(), op)));
}

bool Simulator::is_same(SymValue left, SymValue right) {
  PyObject* a = realise(left);
  PyObject* b = realise(right);
  if (a == b) return true;
  // Two objects of the program that differ today may be one tomorrow.
  if (Py_TYPE(a) != Py_TYPE(b) || (!world_.find(a) && !world_.find(b))) return false;
  graph::SourceId source_a = world_.source_of(a), source_b = world_.source_of(b);
  if (source_a.valid() && source_b.valid()) world_.guard_same(source_a, source_b, false);
  return false;
}

bool Simulator::truth(SymValue& value) {
  PyObject* obj = realise(value);
  if (obj == Py_True || obj == Py_False) return obj == Py_True;
  if (is_tensor(obj)) {
    // The recorder knows the values of constants (arange, ones); any other tensor's truth ends the graph.
    mark_location();
    int known = PyObject_IsTrue(obj);
    if (known >= 0) return known != 0;
    std::string reason, detail;
    if (services_.host.take_stop(&reason, &detail)) stop(StopReason::kDataDependentBranch, std::move(detail));
    raise();
  }
  if (has_python_specials(obj) || is_outside_opaque(obj)) {
    if (_PyType_Lookup(Py_TYPE(obj), interned("__bool__")) == Py_None)
      stop(StopReason::kUnsupportedValue, fmt::format("a '{}', which has no truth", Py_TYPE(obj)->tp_name));
    if (auto result = call_special(obj, "__bool__", {})) {
      if (!PyBool_Check(realise(*result))) stop(StopReason::kUnsupportedValue, "__bool__ gives no bool");
      return result->get() == Py_True;
    }
    PyTypeObject* type = Py_TYPE(obj);
    bool sized = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                 (type->tp_as_sequence && type->tp_as_sequence->sq_length);
    if (sized) return length(value) != 0;
    if (type->tp_as_number && type->tp_as_number->nb_bool && is_outside_opaque(obj))
      stop(StopReason::kUnsupportedValue, fmt::format("truth of '{}'", type->tp_name));
    if (!(type->tp_as_number && type->tp_as_number->nb_bool)) return true;
  }
  int result = PyObject_IsTrue(obj);
  check_status(result);
  return result != 0;
}

Py_ssize_t Simulator::length(SymValue& value) {
  PyObject* obj = realise(value);
  if (has_python_specials(obj)) {
    if (auto result = call_special(obj, "__len__", {})) {
      Py_ssize_t size = PyNumber_AsSsize_t(realise(*result), PyExc_OverflowError);
      if (size < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
        raise();
      }
      return size;
    }
  }
  if (is_outside_opaque(obj)) {
    if (!PyDict_Check(obj) && !PyList_Check(obj) && !PyTuple_Check(obj) && !PyAnySet_Check(obj))
      stop(StopReason::kUnsupportedValue, fmt::format("length of '{}'", Py_TYPE(obj)->tp_name));
    world_.guard(graph::GuardKind::kLength, world_.find(obj)->source, nullptr, PyObject_Size(obj));
  }
  Py_ssize_t size = PyObject_Size(obj);
  check_status(static_cast<int>(size < 0 ? -1 : 0));
  return size;
}

}  // namespace framejit
