// What torch's optimisers and its clipping of gradients do before they call operators on lists of tensors.
#include <algorithm>

#include "tracer/builtins.h"
#include "tracer/simulator.h"

namespace framejit::builtins {
namespace {

struct Kind {
  Ref device, dtype;
};

Kind kind_of(Simulator& sim, PyObject* tensor) {
  return {sim.check(PyObject_GetAttrString(tensor, "device")), sim.check(PyObject_GetAttrString(tensor, "dtype"))};
}

bool are_equal(Simulator& sim, const Ref& a, const Ref& b) {
  const int equal = PyObject_RichCompareBool(a.get(), b.get(), Py_EQ);
  sim.check_status(equal);
  return equal > 0;
}

// A count of steps may lie on the CPU, as a float, whatever the others are.
bool is_count(Simulator& sim, PyObject* tensor, const Kind& kind) {
  const Ref on_cpu = sim.check(PyObject_GetAttrString(tensor, "is_cpu"));
  const Ref name = sim.check(PyObject_Str(kind.dtype.get()));
  const bool is_float = PyUnicode_CompareWithASCIIString(name.get(), "torch.float32") == 0 ||
                        PyUnicode_CompareWithASCIIString(name.get(), "torch.float64") == 0;
  return on_cpu.get() == Py_True && is_float;
}

[[noreturn]] void refuse(Simulator& sim, const char* why) {
  sim.stop(StopReason::kUnknownCall, std::string("torch._C._group_tensors_by_device_and_dtype: ") + why);
}

// The list as LibTorch gives it back, another object. Its tensors are of one kind, that of `common`.
Ref copy_of(Simulator& sim, PyObject* tensors, size_t length, const Kind& common) {
  const size_t size = static_cast<size_t>(PySequence_Fast_GET_SIZE(tensors));
  if (size != 0 && size != length) refuse(sim, "lists of several lengths");
  for (size_t i = 0; i < size; ++i) {
    PyObject* tensor = PySequence_Fast_GET_ITEM(tensors, i);
    if (tensor == Py_None) continue;
    if (!sim.is_tensor(tensor)) refuse(sim, "something else than tensors");
    const Kind kind = kind_of(sim, tensor);
    const bool same = are_equal(sim, kind.device, common.device) && are_equal(sim, kind.dtype, common.dtype);
    if (!same && !is_count(sim, tensor, kind)) refuse(sim, "tensors of several kinds");
  }
  return sim.check(PySequence_List(tensors));
}

bool is_sequence(PyObject* obj) { return PyList_CheckExact(obj) || PyTuple_CheckExact(obj); }

}  // namespace

// Lists of tensors, with_indices -> {(device, dtype): (lists, indices)}. One group is followed: the order of several is
// that of a hash table.
SymValue call_group_tensors(Simulator& sim, PyObject*, CallArgs args) {
  realise_all(sim, args);
  if (args.positional.size() != 2 || args.has_keywords() || !PyBool_Check(args.positional[1].get()))
    refuse(sim, "unusual arguments");
  PyObject* lists = args.positional[0].get();
  if (!is_sequence(lists) || PySequence_Fast_GET_SIZE(lists) == 0) refuse(sim, "no list of lists");
  PyObject** items = PySequence_Fast_ITEMS(lists);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(lists);
  if (!std::all_of(items, items + count, is_sequence) || PySequence_Fast_GET_SIZE(items[0]) == 0)
    refuse(sim, "no list of lists");
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(items[0]);
  PyObject* first = PySequence_Fast_GET_ITEM(items[0], 0);
  if (!sim.is_tensor(first)) refuse(sim, "something else than tensors");
  const Kind common = kind_of(sim, first);
  for (Py_ssize_t i = 0; i < length; ++i)
    if (PyObject* tensor = PySequence_Fast_GET_ITEM(items[0], i);
        !sim.is_tensor(tensor) || !are_equal(sim, kind_of(sim, tensor).device, common.device) ||
        !are_equal(sim, kind_of(sim, tensor).dtype, common.dtype))
      refuse(sim, "tensors of several kinds");
  Ref copies = sim.check(PyList_New(count)), indices = sim.check(PyList_New(0));
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref copy = copy_of(sim, items[i], static_cast<size_t>(length), common);
    sim.note_made(copy.get());
    PyList_SET_ITEM(copies.get(), i, copy.release());
  }
  for (Py_ssize_t i = 0; args.positional[1].get() == Py_True && i < length; ++i) {
    const Ref index = sim.check(PyLong_FromSsize_t(i));
    sim.check_status(PyList_Append(indices.get(), index.get()));
  }
  const Ref key = sim.check(PyTuple_Pack(2, common.device.get(), common.dtype.get()));
  const Ref group = sim.check(PyTuple_Pack(2, copies.get(), indices.get()));
  Ref groups = sim.check(PyDict_New());
  sim.check_status(PyDict_SetItem(groups.get(), key.get(), group.get()));
  for (PyObject* made : {copies.get(), indices.get(), groups.get()}) sim.note_made(made);
  return SymValue(std::move(groups));
}

}  // namespace framejit::builtins
