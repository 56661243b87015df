// Numbers of the graph (graph/number.h): what a tensor's item() gives, floats that are inputs, what the program makes
// of them, and where they are given to operators. All else that looks at one ends the trace.
#include <algorithm>
#include <string_view>

#include "tracer/builtins.h"
#include "tracer/library.h"
#include "tracer/simulator.h"

namespace framejit {

using bytecode::BinaryKind;
using graph::NumberOp;
using Operand = TensorHost::NumberOperand;

namespace {

constexpr long long kExact = 1LL << 53;  // integers up to here are doubles

std::optional<NumberOp> number_op_of(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::kAdd:
      return NumberOp::kAdd;
    case BinaryKind::kSubtract:
      return NumberOp::kSubtract;
    case BinaryKind::kMultiply:
      return NumberOp::kMultiply;
    case BinaryKind::kTrueDivide:
      return NumberOp::kDivide;
    case BinaryKind::kPower:
      return NumberOp::kPower;
    default:
      return std::nullopt;
  }
}

std::optional<double> as_double(PyObject* obj) {
  if (PyFloat_CheckExact(obj)) return PyFloat_AS_DOUBLE(obj);
  if (!PyLong_CheckExact(obj)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(obj, &overflow);
  if (overflow != 0 || value > kExact || value < -kExact) return std::nullopt;
  return static_cast<double>(value);
}

// Whether the operator of a tensor takes a number on its right as a tensor, and on its left as if that were its right.
bool takes_as_tensor(BinaryKind kind) {
  return kind == BinaryKind::kAdd || kind == BinaryKind::kSubtract || kind == BinaryKind::kMultiply ||
         kind == BinaryKind::kTrueDivide;
}

bool is_plain_tensor(PyObject* tensor) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
  return type == library().tensor_type || type == library().parameter_type;
}

// Functions and methods of torch that take their second argument, `other`, as a tensor, also where it is a number.
bool takes_other_as_tensor(PyObject* callable) {
  static constexpr std::string_view kNames[] = {"add",      "sub", "subtract", "mul",
                                                "multiply", "div", "divide",   "true_divide"};
  const bool descriptor = PyObject_TypeCheck(callable, &PyMethodDescr_Type);
  if (!descriptor && !PyCFunction_Check(callable)) return false;
  std::string_view name = descriptor ? reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name
                                     : reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (name.ends_with('_') && !name.starts_with('_')) name.remove_suffix(1);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool commutes(BinaryKind kind) { return kind == BinaryKind::kAdd || kind == BinaryKind::kMultiply; }

}  // namespace

SymValue Simulator::add_number(Ref tensor) {
  return SymValue::borrow(world_.add_number(check(services_.host.number_object().release()), std::move(tensor)));
}

std::optional<SymValue> Simulator::number_of(PyObject* tensor) {
  TensorHost& host = services_.host;
  if (!services_.numbers || is_in_body() || is_in_backward() || !host.is_fake(tensor) || host.is_level_tensor(tensor))
    return std::nullopt;
  mark_location();
  Ref number = host.number_of(tensor);
  if (!number && PyErr_Occurred()) raise();
  return number ? std::optional(add_number(std::move(number))) : std::nullopt;
}

PyObject* Simulator::number_tensor(PyObject* number) {
  if (PyObject* known = world_.number_tensor(number)) return known;
  if (is_in_body() || is_in_backward()) stop(StopReason::kChangingNumber, "a 'float'");
  return world_.add_number_input(number, check(services_.host.number_input().release()));
}

SymValue Simulator::compute_number(NumberOp op, const std::vector<Operand>& operands) {
  mark_location();
  return add_number(check(services_.host.compute_number(op, operands).release()));
}

SymValue Simulator::binary_of_number(BinaryKind kind, bool in_place, SymValue left, SymValue right) {
  const bool on_the_left = is_number(left);
  SymValue& number = on_the_left ? left : right;
  SymValue& other = on_the_left ? right : left;
  if (!is_number(other) && services_.host.is_fake(realise(other))) {
    if (!takes_as_tensor(kind) || !is_plain_tensor(other.get()) || is_in_body()) realise(number);
    if (on_the_left && !commutes(kind)) return reflected_of_number(kind, std::move(number), std::move(other));
    SymValue as_tensor = SymValue::borrow(number_tensor(number.get()));
    return binary(kind, in_place && !on_the_left, other, std::move(as_tensor));
  }
  auto operand = [&](SymValue& value) -> std::optional<Operand> {
    if (is_number(value)) return Operand{number_tensor(value.get()), 0};
    const std::optional<double> known = as_double(realise(value));
    return known ? std::optional(Operand{nullptr, *known}) : std::nullopt;
  };
  const auto op = number_op_of(kind);
  const auto a = operand(left), b = operand(right);
  if (!op || !a || !b) realise(number);
  return compute_number(*op, {*a, *b});
}

std::optional<bool> Simulator::compare_number(int op, SymValue& number, SymValue& other) {
  if (!is_number(number) || is_number(other)) return std::nullopt;
  const graph::SourceId source = world_.number_source(number.get());
  const std::optional<double> known = source.valid() ? as_double(realise(other)) : std::nullopt;
  if (!known) return std::nullopt;
  const bool outcome = graph::compare_numbers(op, world_.number_value(number.get()), *known);
  world_.guard(graph::GuardKind::kCompares, source, other.get(), graph::NumberComparison{op, outcome}.packed());
  return outcome;
}

SymValue Simulator::reflected_of_number(BinaryKind kind, SymValue number, SymValue tensor) {
  const char* name = kind == BinaryKind::kSubtract ? "__rsub__" : "__rtruediv__";
  PyObject* method = lookup_type(Py_TYPE(tensor.get()), interned(name));
  if (!method) realise(number);
  return call(SymValue::borrow(method), {tensor, number});
}

SymValue Simulator::unary_of_number(bytecode::UnaryKind kind, SymValue number) {
  if (kind == bytecode::UnaryKind::kPositive) return number;
  if (kind != bytecode::UnaryKind::kNegative) realise(number);
  return compute_number(NumberOp::kNegate, {{number_tensor(number.get()), 0}});
}

namespace {

// A sum of floats as Python/bltinmodule.c makes it: of integers first, and from the first float on in floats.
class SumOfNumbers {
 public:
  SumOfNumbers(Simulator& sim, PyObject* start)
      : sim_(sim),
        whole_(Ref::borrow(start)),
        // Not behind True or False, which the additions of floats begin with in another way.
        compensates_(bytecode::traits(sim.frame().code->version).sum_compensates && !PyBool_Check(start)) {
    if (PyLong_Check(start)) return;
    in_floats_ = true;
    sum_ = operand(start);
  }

  void add(PyObject* item) {
    const bool is_whole = PyLong_Check(item);
    if (!in_floats_ && is_whole) {
      whole_ = sim_.check(PyNumber_Add(whole_.get(), item));
      return;
    }
    const Operand further = operand(item);
    if (!in_floats_) {
      sum_ = compute(NumberOp::kAdd, operand(whole_.get()), further);
      in_floats_ = true;
      return;
    }
    if (compensates_ && !is_whole) lost_ = compute(NumberOp::kAdd, lost_, compute(NumberOp::kLost, sum_, further));
    sum_ = compute(NumberOp::kAdd, sum_, further);
  }

  SymValue result() {
    if (!in_floats_) return SymValue(std::move(whole_));
    if (compensates_) sum_ = compute(NumberOp::kRestore, sum_, lost_);
    return sum_.number ? std::move(last_) : SymValue(sim_.check(PyFloat_FromDouble(sum_.known)));
  }

 private:
  Operand operand(PyObject* item) {
    if (sim_.world().is_number(item)) return {sim_.number_tensor(item), 0};
    const std::optional<double> known =
        PyBool_Check(item) ? std::optional(item == Py_True ? 1.0 : 0.0) : as_double(item);
    if (!known) sim_.stop(StopReason::kDataDependentValue, "a number of the graph is added to others");
    return {nullptr, *known};
  }

  Operand compute(NumberOp op, const Operand& a, const Operand& b) {
    if (!a.number && !b.number) return {nullptr, *graph::compute_number(op, a.known, b.known)};
    last_ = sim_.compute_number(op, {a, b});
    return {sim_.number_tensor(last_.get()), 0};
  }

  Simulator& sim_;
  Ref whole_;
  const bool compensates_;
  bool in_floats_ = false;
  Operand sum_, lost_;
  SymValue last_;  // of the graph
};

}  // namespace

SymValue Simulator::sum_of_numbers(PyObject* start, PyObject* numbers) {
  SumOfNumbers sum(*this, start);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); ++i) sum.add(PyList_GET_ITEM(numbers, i));
  return sum.result();
}

bool Simulator::moves_numbers(PyObject* container, PyObject* method) {
  static constexpr std::string_view kMoving[] = {
      "append", "appendleft", "clear",       "copy",     "extend",  "extendleft",   "get",        "insert",
      "items",  "keys",       "pop",         "popitem",  "popleft", "reverse",      "rotate",     "setdefault",
      "update", "values",     "__getitem__", "__iter__", "__len__", "__reversed__", "__setitem__"};
  const char* name = PyUnicode_AsUTF8(PyDescr_NAME(method));
  const bool moves = std::find(std::begin(kMoving), std::end(kMoving), name ? name : "") != std::end(kMoving);
  if (!moves && world_.holds_number(container))
    stop(StopReason::kDataDependentValue, qualified_name(method) + " of a container with a number of the graph");
  return moves;
}

namespace {

// `make`: what stands in the place of a number.
template <class Make>
Ref replace_numbers(Simulator& sim, PyObject* obj, const Make& make) {
  if (!sim.world().holds_number(obj)) return Ref::borrow(obj);
  if (sim.world().is_number(obj)) return make(obj);
  if (!PyTuple_CheckExact(obj) && !PyList_CheckExact(obj))
    sim.stop(StopReason::kDataDependentValue, "a number in a container is given to a function of torch");
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(obj);
  Ref replaced = sim.check(PyTuple_CheckExact(obj) ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = replace_numbers(sim, PySequence_Fast_GET_ITEM(obj, i), make).release();
    PyTuple_CheckExact(obj) ? PyTuple_SET_ITEM(replaced.get(), i, item) : PyList_SET_ITEM(replaced.get(), i, item);
  }
  return replaced;
}

}  // namespace

Ref Simulator::given_number(PyObject* obj) {
  return replace_numbers(*this, obj, [&](PyObject* number) {
    return check(services_.host.number_argument(number_tensor(number)).release());
  });
}

Ref Simulator::with_some_floats(PyObject* obj) {
  return replace_numbers(*this, obj, [&](PyObject*) { return check(PyFloat_FromDouble(0)); });
}

void Simulator::give_numbers(PyObject* callable, CallArgs& args) {
  auto holds = [&](const SymValue& value) { return world_.holds_number(value.get()); };
  if (std::none_of(args.positional.begin(), args.positional.end(), holds) &&
      std::none_of(args.keywords.begin(), args.keywords.end(), [&](const auto& word) { return holds(word.second); }))
    return;
  // A subclass's __torch_function__ would be given the float itself.
  for (SymValue& value : args.positional)
    if (is_tensor(value.get()) && !is_plain_tensor(value.get()))
      stop(StopReason::kDataDependentValue, "a number is given to a function of a tensor's subclass");
  auto give_tensor = [&](SymValue& value) {
    if (is_number(value)) value = SymValue::borrow(number_tensor(value.get()));
  };
  if (takes_other_as_tensor(callable)) {
    if (args.positional.size() > 1) give_tensor(args.positional[1]);
    for (auto& [name, value] : args.keywords)
      if (PyUnicode_CompareWithASCIIString(name.get(), "other") == 0) give_tensor(value);
  }
  auto give = [&](SymValue& value) {
    if (holds(value)) value = SymValue(given_number(value.get()));
  };
  for (SymValue& value : args.positional) give(value);
  for (auto& [name, value] : args.keywords) give(value);
}

namespace builtins {

SymValue call_item(Simulator& sim, PyObject* callable, CallArgs args) {
  realise_all(sim, args);
  sim.require_plain(args, callable);
  if (args.count() == 1 && !args.has_keywords())
    if (auto number = sim.number_of(args.positional[0].get())) return *number;
  return sim.call_real(callable, args);
}

SymValue call_is_tensor(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() == 1 && !args.has_keywords() && sim.is_number(args.positional[0])) return SymValue::borrow(Py_False);
  realise_all(sim, args);
  sim.require_plain(args, callable);
  return sim.call_real(callable, args);
}

SymValue call_sqrt(Simulator& sim, PyObject* callable, CallArgs args) {
  if (args.count() == 1 && !args.has_keywords() && sim.is_number(args.positional[0]))
    return sim.compute_number(NumberOp::kSqrt, {{sim.number_tensor(args.positional[0].get()), 0}});
  realise_all(sim, args);
  sim.require_plain(args, callable);
  return sim.call_c(callable, args);
}

}  // namespace builtins

}  // namespace framejit
