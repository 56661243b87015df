#include "base/check.h"
#include "runtime/replay/replay.h"
#include "tracer/set_table.h"

namespace framejit::runtime {

using graph::Effect;
using graph::EffectKind;

namespace {

bool is_odict(PyObject* dict) { return PyODict_Check(dict); }

// An unbound method of a C type, so that no override of a subclass runs.
bool call_method_of(PyTypeObject* type, const char* name, PyObject* self, PyObject* arg = nullptr) {
  Ref method = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
  if (!method) return false;
  Ref result = Ref::steal(PyObject_CallFunctionObjArgs(method.get(), self, arg, nullptr));
  return static_cast<bool>(result);
}

// The C type `deque` among the bases.
PyTypeObject* native_base(PyObject* obj) {
  PyTypeObject* type = Py_TYPE(obj);
  while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base && type->tp_base != &PyBaseObject_Type)
    type = type->tp_base;
  return type;
}

bool replace_deque(PyObject* deque, PyObject* items) {
  PyTypeObject* type = native_base(deque);
  return call_method_of(type, "clear", deque) && call_method_of(type, "extend", deque, items);
}

bool replace_dict(PyObject* dict, PyObject* pairs) {
  if (!clear_dict(dict)) return false;
  for (Py_ssize_t i = 0; i + 1 < PyList_GET_SIZE(pairs); i += 2)
    if (!set_dict_item(dict, PyList_GET_ITEM(pairs, i), PyList_GET_ITEM(pairs, i + 1))) return false;
  return true;
}

bool call_with(PyObject* callable, PyObject* items) {
  Ref args = Ref::steal(PyList_AsTuple(items));
  Ref result = args ? Ref::steal(PyObject_Call(callable, args.get(), nullptr)) : nullptr;
  return static_cast<bool>(result);
}

}  // namespace

bool set_dict_item(PyObject* dict, PyObject* key, PyObject* value) {
  return (is_odict(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0;
}

bool delete_dict_item(PyObject* dict, PyObject* key) {
  return (is_odict(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0;
}

bool clear_dict(PyObject* dict) {
  if (is_odict(dict)) return call_method_of(&PyODict_Type, "clear", dict);
  PyDict_Clear(dict);
  return true;
}

bool Replay::apply_effects() {
  for (const Effect& effect : plan_.capture().effects)
    if (!apply(effect)) return false;
  return true;
}

Ref Replay::list_of(const std::vector<graph::RecipeId>& values) {
  Ref list = Ref::steal(PyList_New(0));
  for (graph::RecipeId id : values) {
    Ref value = list ? build(id) : nullptr;
    if (!value || PyList_Append(list.get(), value.get()) < 0) return nullptr;
  }
  return list;
}

namespace {

// What the captured code both made and deleted need not be there; what it only deleted is guarded to be there.
bool was_absent(PyObject* error) {
  if (!PyErr_ExceptionMatches(error)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

bool Replay::apply(const Effect& effect) {
  Ref target = build(effect.target);
  if (!target) {
    FJ_CHECK(PyErr_Occurred(), "the target of an effect is unbound");
    return false;
  }
  return apply_to(effect, target.get());
}

bool Replay::apply_to(const Effect& effect, PyObject* target) {
  Ref key = build(effect.key);
  Ref value = PyErr_Occurred() ? nullptr : build(effect.value);
  Ref items = PyErr_Occurred() ? nullptr : list_of(effect.values);
  if (PyErr_Occurred()) return false;
  switch (effect.kind) {
    case EffectKind::kSetAttr:
      return PyObject_GenericSetAttr(target, key.get(), value.get()) == 0;
    case EffectKind::kDelAttr:
      return PyObject_GenericSetAttr(target, key.get(), nullptr) == 0 || was_absent(PyExc_AttributeError);
    case EffectKind::kSetSlot:
      return Py_TYPE(key.get())->tp_descr_set(key.get(), target, value.get()) == 0;
    case EffectKind::kTypeSetAttr:
      return PyType_Type.tp_setattro(target, key.get(), value.get()) == 0;
    case EffectKind::kDictSet:
      return set_dict_item(target, key.get(), value.get());
    case EffectKind::kDictDelete:
      return delete_dict_item(target, key.get()) || was_absent(PyExc_KeyError);
    case EffectKind::kDictReplace:
      return replace_dict(target, items.get());
    case EffectKind::kListExtend:
      return PyList_SetSlice(target, PyList_GET_SIZE(target), PyList_GET_SIZE(target), items.get()) == 0;
    case EffectKind::kListReplace:
      return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), items.get()) == 0;
    case EffectKind::kSetReplace:
      take_table(target, value.get());
      return true;
    case EffectKind::kDequeReplace:
      return replace_deque(target, items.get());
    case EffectKind::kCellSet:
      return PyCell_Set(target, value.get()) == 0;
    case EffectKind::kCall:
      return call_with(target, items.get());
  }
  FJ_CHECK(false, "effect kind {}", static_cast<int>(effect.kind));
  return false;
}

}  // namespace framejit::runtime
