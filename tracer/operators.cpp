// Operators on simulated values: real ones where the operands' code is C, the special methods inlined where it is
// Python.
#include "tracer/simulator.h"
#include "tracer/type_slots.h"

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
const int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
const char* const kUnary[] = {"__pos__", "__neg__", nullptr, "__invert__"};

// Operators that move the elements of their operands and call nothing of them.
bool moves_elements_only(BinaryKind kind, PyObject* left, PyObject* right) {
  const auto is_sequence = [](PyObject* obj) { return PyTuple_CheckExact(obj) || PyList_CheckExact(obj); };
  if (kind == BinaryKind::kAdd) return is_sequence(left) && is_sequence(right);
  if (kind == BinaryKind::kMultiply)
    return (is_sequence(left) && PyLong_CheckExact(right)) || (PyLong_CheckExact(left) && is_sequence(right));
  return false;
}

// A method may give what the program holds, and that is another object in another call.
bool implemented(World& world, const SymValue& result) {
  if (result.lazy.valid())
    world.guard(graph::GuardKind::kTypeIs, result.lazy, reinterpret_cast<PyObject*>(Py_TYPE(result.get())));
  return result.get() != Py_NotImplemented;
}

// What the C operators of these types look at is an operand of the same family; of others, and of instances of a class
// over object, they look at the type alone and give NotImplemented.
PyTypeObject* data_family(PyObject* obj) {
  static PyTypeObject* const kFamilies[][2] = {{&PyLong_Type, &PyLong_Type},    {&PyFloat_Type, &PyLong_Type},
                                               {&PyComplex_Type, &PyLong_Type}, {&PyUnicode_Type, &PyUnicode_Type},
                                               {&PyList_Type, &PyList_Type},    {&PyTuple_Type, &PyTuple_Type},
                                               {&PyODict_Type, &PyDict_Type},   {&PyDict_Type, &PyDict_Type},
                                               {&PySet_Type, &PySet_Type},      {&PyFrozenSet_Type, &PySet_Type}};
  PyTypeObject* native = native_base(Py_TYPE(obj));
  if (obj == Py_None || native == &PyBaseObject_Type) return &PyBaseObject_Type;
  for (auto [base, family] : kFamilies)
    if (PyType_IsSubtype(native, base))  // numpy.float64 is a float that compares with anything
      return native->tp_richcompare == base->tp_richcompare ? family : nullptr;
  return nullptr;
}

bool are_apart(PyObject* left, PyObject* right) {
  PyTypeObject *of_left = data_family(left), *of_right = data_family(right);
  return of_left && of_right && of_left != of_right;
}

// Before the methods behind these slots come those of numbers, of both operands.
bool is_sequence_operator(PyObject* method) {
  if (Py_TYPE(method) != &PyWrapperDescr_Type) return false;
  const PyNumberMethods* numbers = PyDescr_TYPE(method)->tp_as_number;
  for (const char* name : {"__add__", "__iadd__", "__mul__", "__rmul__", "__imul__"})
    if (PyUnicode_CompareWithASCIIString(PyDescr_NAME(method), name) == 0)
      return !numbers || !(numbers->nb_add || numbers->nb_multiply);
  return false;
}

}  // namespace

// What the type's method gives, NotImplemented where it has none.
SymValue Simulator::operator_method(PyObject* self, const char* name, SymValue other) {
  if (auto result = call_special(self, name, {other})) return *result;
  PyObject* method = lookup_type(Py_TYPE(self), interned(name));
  const PyNumberMethods* numbers = Py_TYPE(self)->tp_as_number;
  // The slot of numbers has it in a subclass, and comes first (update_one_slot of Objects/typeobject.c).
  const bool adds_in_place = numbers && numbers->nb_inplace_add && strcmp(name, "__iadd__") == 0;
  if (!method || (is_sequence_operator(method) && !adds_in_place)) return SymValue::borrow(Py_NotImplemented);
  if (data_family(self) != &PyUnicode_Type && are_apart(self, other.get())) return SymValue::borrow(Py_NotImplemented);
  if (is_tensor(self)) {  // its methods turn the TypeError that they raise into NotImplemented
    const bool is_scalar = PyLong_Check(other.get()) || PyFloat_Check(other.get()) || PyComplex_Check(other.get());
    if (is_scalar || PyObject_HasAttrString(other.get(), "__torch_function__"))
      stop(StopReason::kUnsupportedValue,
           fmt::format("{} of a tensor and a '{}'", name, Py_TYPE(other.get())->tp_name));
    return SymValue::borrow(Py_NotImplemented);
  }
  CallArgs args{{SymValue::borrow(self), other}, {}};
  require_plain(args, nullptr);
  return call_c(method, args);
}

// As binary_op1 and SLOT1BINFULL: the right operand's method comes first where its class overrides that of a base.
SymValue Simulator::binary_by_methods(const char* method, const char* reflected, SymValue left, SymValue right) {
  PyTypeObject *of_left = Py_TYPE(left.get()), *of_right = Py_TYPE(right.get());
  const bool two_types = of_left != of_right;
  if (two_types && PyType_IsSubtype(of_right, of_left) &&
      lookup_type(of_right, interned(reflected)) != lookup_type(of_left, interned(reflected))) {
    SymValue result = operator_method(right.get(), reflected, left);
    return implemented(world_, result) ? result : operator_method(left.get(), method, right);
  }
  SymValue result = operator_method(left.get(), method, right);
  return implemented(world_, result) || !two_types ? result : operator_method(right.get(), reflected, left);
}

SymValue Simulator::binary(BinaryKind kind, bool in_place, SymValue left, SymValue right) {
  if (is_number(left) || is_number(right)) return binary_of_number(kind, in_place, std::move(left), std::move(right));
  const BinaryRow& row = kBinary[static_cast<size_t>(kind)];
  realise(left);
  realise(right);
  const bool own_in_place = in_place && has_own_special(left.get(), row.in_place_method);
  const bool own_left = has_own_special(left.get(), row.method);
  const bool own_right = has_own_special(right.get(), row.reflected);
  if (own_in_place || own_left || own_right || has_python_specials(left.get()) || has_python_specials(right.get())) {
    if (in_place) {
      SymValue result = operator_method(left.get(), row.in_place_method, right);
      if (implemented(world_, result)) return result;
    }
    SymValue result = binary_by_methods(row.method, row.reflected, left, right);
    if (implemented(world_, result)) return result;
    stop(StopReason::kUnsupportedValue,
         fmt::format("{} of '{}' and '{}'", row.method, Py_TYPE(left.get())->tp_name, Py_TYPE(right.get())->tp_name));
  }
  if (!moves_elements_only(kind, left.get(), right.get())) require_plain(CallArgs{{left, right}, {}}, nullptr);
  rely_on_made_keys(left.get());
  rely_on_made_keys(right.get());
  mark_location();
  if (in_place && kind != BinaryKind::kAdd) require_items_survive(left.get());
  if (in_place && !is_tensor(left.get())) world_.note_changed(left.get());
  const auto function = in_place ? row.in_place : row.function;
  const auto run = [&] { return from_real(check(function(left.get(), right.get()))); };
  // A text asks a tensor for its own, which Python code writes.
  const bool formats = kind == BinaryKind::kRemainder && (PyUnicode_Check(left.get()) || PyBytes_Check(left.get()));
  return !formats && (is_tensor(left.get()) || is_tensor(right.get())) ? run() : without_python(run);
}

SymValue Simulator::unary(UnaryKind kind, SymValue operand) {
  if (kind == UnaryKind::kNot) return SymValue::borrow(truth(operand) ? Py_False : Py_True);
  if (is_number(operand)) return unary_of_number(kind, std::move(operand));
  realise(operand);
  const char* method = kUnary[static_cast<size_t>(kind)];
  if (has_python_specials(operand.get()) || has_own_special(operand.get(), method))
    if (auto result = call_special(operand.get(), method, {})) return *result;
  require_plain(CallArgs{{operand}, {}}, nullptr);
  mark_location();
  auto function = kind == UnaryKind::kPositive   ? PyNumber_Positive
                  : kind == UnaryKind::kNegative ? PyNumber_Negative
                                                 : PyNumber_Invert;
  return from_real(check(function(operand.get())));
}

// tp_richcompare of the left operand, which may give NotImplemented.
SymValue Simulator::compare_by_slot(int op, SymValue left, SymValue right) {
  PyTypeObject* type = Py_TYPE(left.get());
  if (!compares_in_python(type))
    for (const char* name : kCompare) lookup_type(type, interned(name));  // it may get one
  if (has_own_special(left.get(), kCompare[op]) || (has_python_specials(left.get()) && compares_in_python(type))) {
    if (auto result = call_special(left.get(), kCompare[op], {right})) return *result;
    PyObject* method = lookup_type(type, interned(kCompare[op]));
    if (!method) return SymValue::borrow(Py_NotImplemented);
    if (Py_TYPE(method) != &PyWrapperDescr_Type)
      stop(StopReason::kUnsupportedValue, fmt::format("{} of '{}'", kCompare[op], type->tp_name));
    type = PyDescr_TYPE(method);
  }
  if (left.get() == Py_None || type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
    return compare_as_object(op, left, right);
  if (!type->tp_richcompare || are_apart(left.get(), right.get())) return SymValue::borrow(Py_NotImplemented);
  CallArgs args{{left, right}, {}};
  require_plain(args, nullptr);
  mark_location();
  return from_real(check(type->tp_richcompare(left.get(), right.get(), op)));
}

// As object_richcompare.
SymValue Simulator::compare_as_object(int op, SymValue left, SymValue right) {
  if (op == Py_EQ && is_same(left, right)) return SymValue::borrow(Py_True);
  if (op != Py_NE) return SymValue::borrow(Py_NotImplemented);
  SymValue equal = compare_by_slot(Py_EQ, left, right);
  if (!implemented(world_, equal)) return equal;
  return SymValue::borrow(truth(equal) ? Py_False : Py_True);
}

// As do_richcompare.
SymValue Simulator::compare_by_slots(int op, SymValue left, SymValue right) {
  PyTypeObject *of_left = Py_TYPE(left.get()), *of_right = Py_TYPE(right.get());
  const bool right_first = of_left != of_right && PyType_IsSubtype(of_right, of_left);
  if (right_first)
    if (SymValue result = compare_by_slot(kSwapped[op], right, left); implemented(world_, result)) return result;
  if (SymValue result = compare_by_slot(op, left, right); implemented(world_, result)) return result;
  if (!right_first)
    if (SymValue result = compare_by_slot(kSwapped[op], right, left); implemented(world_, result)) return result;
  if (op == Py_EQ || op == Py_NE) return SymValue::of_bool(is_same(left, right) == (op == Py_EQ));
  raise(PyExc_TypeError, fmt::format("'{}' not supported between instances of '{}' and '{}'",
                                     graph::comparison_sign(op), of_left->tp_name, of_right->tp_name));
}

SymValue Simulator::compare(CompareKind kind, SymValue left, SymValue right) {
  const int op = static_cast<int>(kind);
  if (const auto known = compare_number(op, left, right)) return SymValue::of_bool(*known);
  if (const auto known = compare_number(kSwapped[op], right, left)) return SymValue::of_bool(*known);
  realise(left);
  realise(right);
  const bool own_left = has_own_special(left.get(), kCompare[op]);
  const bool own_right = has_own_special(right.get(), kCompare[kSwapped[op]]);
  if (own_left || own_right || has_python_specials(left.get()) || has_python_specials(right.get()))
    return compare_by_slots(op, left, right);
  if ((op == Py_EQ || op == Py_NE) && are_apart(left.get(), right.get())) return SymValue::of_bool(op == Py_NE);
  CallArgs args{{left, right}, {}};
  require_plain(args, nullptr);
  mark_location();
  rely_on_comparison(left.get(), right.get());
  const auto run = [&] { return from_real(check(PyObject_RichCompare(left.get(), right.get(), op))); };
  return is_tensor(left.get()) || is_tensor(right.get()) ? run() : without_python(run);
}

constexpr int kDeepestCompared = 50;

static bool is_deque(PyObject* obj) { return !strcmp(Py_TYPE(obj)->tp_name, "collections.deque"); }

// A method with what it is of, which is compared by identity.
static bool is_bound(PyObject* obj) {
  return PyMethod_Check(obj) || PyCFunction_Check(obj) || !strcmp(Py_TYPE(obj)->tp_name, "method-wrapper");
}

void Simulator::rely_on_comparison(PyObject* a, PyObject* b, int depth) {
  if (is_outside_opaque(a) && is_outside_opaque(b)) {
    is_same(SymValue::borrow(a), SymValue::borrow(b));
    return;
  }
  rely_on_made_keys(a);
  rely_on_made_keys(b);
  if (is_bound(a) && is_bound(b)) {
    SymValue of_a(check(PyObject_GetAttrString(a, "__self__"))), of_b(check(PyObject_GetAttrString(b, "__self__")));
    is_same(of_a, of_b);
  }
  if (PySlice_Check(a) && PySlice_Check(b)) {
    auto *left = reinterpret_cast<PySliceObject*>(a), *right = reinterpret_cast<PySliceObject*>(b);
    rely_on_comparison(left->start, right->start, depth + 1);
    rely_on_comparison(left->stop, right->stop, depth + 1);
    rely_on_comparison(left->step, right->step, depth + 1);
  }
  auto is_sequence = [](PyObject* obj) { return PyTuple_Check(obj) || PyList_Check(obj) || is_deque(obj); };
  const bool dicts = PyDict_Check(a) && PyDict_Check(b);
  if (!dicts && (!is_sequence(a) || !is_sequence(b))) return;
  if (depth == kDeepestCompared)
    stop(StopReason::kContainerTooLarge, fmt::format("{} levels deep, compared", kDeepestCompared));
  if (dicts) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(a, &pos, &key, &value);)
      if (PyObject* other = PyDict_GetItem(b, key)) rely_on_comparison(value, other, depth + 1);
    return;
  }
  Ref left = check(PySequence_List(a)), right = check(PySequence_List(b));
  const Py_ssize_t size = std::min(PyList_GET_SIZE(left.get()), PyList_GET_SIZE(right.get()));
  for (Py_ssize_t i = 0; i < size; ++i)
    rely_on_comparison(PyList_GET_ITEM(left.get(), i), PyList_GET_ITEM(right.get(), i), depth + 1);
}

void Simulator::rely_on_search(PyObject* container, PyObject* item) {
  PyTypeObject* type = Py_TYPE(container);
  const bool compares_each = PyTuple_Check(container) || PyList_Check(container) || is_deque(container) ||
                             type == &PyDictValues_Type || type == &PyDictItems_Type;
  if (!compares_each) return;
  Ref items = check(PySequence_List(container));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
    rely_on_comparison(PyList_GET_ITEM(items.get(), i), item);
}

bool Simulator::is_one_number(SymValue& left, SymValue& right) {
  if (left.lazy.valid() && left.lazy == right.lazy) return world_.is_read_in_place(left.lazy);
  if (!world_.is_number(left.get()) && !world_.is_number(right.get())) return false;
  if (!is_number(left) || !is_number(right) || left.get() != right.get()) return false;
  const graph::SourceId source = world_.number_source(left.get());
  return !source.valid() || world_.is_read_in_place(source);
}

bool Simulator::is_apart_from_number(SymValue& number, SymValue& other) {
  if (PyFloat_CheckExact(other.get()) || world_.is_number(other.get()) || !is_number(number)) return false;
  realise(other);
  return true;
}

// What is set aside is of a known type.
bool Simulator::is_apart_from_aside(SymValue& aside, SymValue& other) {
  if (!world_.is_aside(aside.get()) || world_.is_aside(other.get())) return false;
  return realise(other) == Py_None;
}

bool Simulator::is_same(SymValue left, SymValue right) {
  if (is_one_number(left, right)) return true;
  if (is_apart_from_number(left, right) || is_apart_from_number(right, left)) return false;
  if (is_apart_from_aside(left, right) || is_apart_from_aside(right, left)) return false;
  PyObject* a = realise(left);
  PyObject* b = realise(right);
  if (a == b) return true;
  // Two objects of the program that differ today may be one tomorrow.
  if (Py_TYPE(a) != Py_TYPE(b) || (!world_.find(a) && !world_.find(b))) return false;
  graph::SourceId source_a = world_.source_of(a), source_b = world_.source_of(b);
  if (source_a.valid() && source_b.valid()) world_.guard_same(source_a, source_b, false);
  return false;
}

namespace {

bool is_literal(const bytecode::DecodedCode& code, PyObject* obj) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code.consts.get()); ++i)
    if (PyTuple_GET_ITEM(code.consts.get(), i) == obj) return true;
  return false;
}

}  // namespace

bool Simulator::is_identical(SymValue left, SymValue right) {
  if (is_one_number(left, right)) return true;
  if (is_apart_from_number(left, right) || is_apart_from_number(right, left)) return false;
  if (is_apart_from_aside(left, right) || is_apart_from_aside(right, left)) return false;
  PyObject* a = realise(left);
  PyObject* b = realise(right);
  const bool same = is_same(left, right);
  if (Py_TYPE(a) != Py_TYPE(b) || !has_equals(a) || !has_equals(b)) return same;
  const graph::SourceId place_a = world_.place_of(a), place_b = world_.place_of(b);
  const bool without_place = world_.is_without_place(a) || world_.is_without_place(b);
  if (!place_a.valid() && !place_b.valid() && !without_place) return same;
  // Guards on their values tell those apart that differ.
  const int equal = same ? 1 : PyObject_RichCompareBool(a, b, Py_EQ);
  check_status(equal);
  if (!equal && !is_nan(a)) return false;
  if (without_place)
    stop(StopReason::kUnsupportedValue,
         "whether a key of a dictionary or an item of a set is an object that equals it");
  world_.rely_on_one_object(a);
  if (same) {
    if (is_literal(*frame().code, a)) world_.guard(graph::GuardKind::kIdIs, place_a, a);
    return true;
  }
  world_.rely_on_one_object(b);
  auto place = [&](PyObject* obj, graph::SourceId found) {
    return found.valid() ? found : world_.sources().constant(world_.pool().add(obj));
  };
  world_.guard_same(place(a, place_a), place(b, place_b), false);
  return false;
}

bool Simulator::truth(SymValue& value) {
  if (is_number(value)) {
    SymValue zero(check(PyFloat_FromDouble(0)));
    if (const auto known = compare_number(Py_NE, value, zero)) return *known;
  }
  PyObject* obj = realise(value);
  if (obj == Py_True || obj == Py_False) return obj == Py_True;
  if (is_tensor(obj) && !has_own_special(obj, "__bool__")) {
    // The recorder knows the values of constants (arange, ones); any other tensor's truth ends the graph.
    mark_location();
    int known = PyObject_IsTrue(obj);
    if (known >= 0) return known != 0;
    std::string reason, detail;
    if (services_.host.take_stop(&reason, &detail)) stop(StopReason::kDataDependentBranch, std::move(detail));
    raise();
  }
  if (has_python_specials(obj) || is_outside_opaque(obj) || is_tensor(obj)) {
    if (lookup_type(Py_TYPE(obj), interned("__bool__")) == Py_None)
      stop(StopReason::kUnsupportedValue, fmt::format("a '{}', which has no truth", Py_TYPE(obj)->tp_name));
    if (auto result = call_special(obj, "__bool__", {})) {
      if (!PyBool_Check(realise(*result))) stop(StopReason::kUnsupportedValue, "__bool__ gives no bool");
      return result->get() == Py_True;
    }
    PyTypeObject* type = Py_TYPE(obj);
    if (!type->tp_as_number || !type->tp_as_number->nb_bool) {
      lookup_type(type, interned("__len__"));  // it may get one
      const bool sized = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                         (type->tp_as_sequence && type->tp_as_sequence->sq_length);
      return !sized || length(value) != 0;
    }
    if (is_outside_opaque(obj)) stop(StopReason::kUnsupportedValue, fmt::format("truth of '{}'", type->tp_name));
  }
  int result = PyObject_IsTrue(obj);
  check_status(result);
  return result != 0;
}

Py_ssize_t Simulator::length(SymValue& value) {
  PyObject* obj = realise(value);
  if (has_python_specials(obj) || has_own_special(obj, "__len__")) {
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
