#include "runtime/cache/twin_origin.h"

#include "eval_frame/hook.h"

namespace framejit::runtime {

void mark_twin(PyObject* twin, PyObject* own_code, bytecode::OffsetMap offsets) {
  auto* origin = new TwinOrigin;
  origin->code = Ref::steal(PyWeakref_NewRef(own_code, nullptr));
  origin->offsets = std::move(offsets);
  auto drop = [](void* state) { delete static_cast<TwinOrigin*>(state); };
  if (!origin->code || framejit_code_state_set(reinterpret_cast<PyCodeObject*>(twin), origin, drop) < 0) {
    delete origin;
    PyErr_Clear();
  }
}

const TwinOrigin* twin_origin(PyObject* code) {
  const CodeMark* mark = code_mark(code);
  return mark && *mark == CodeMark::kTwin ? reinterpret_cast<const TwinOrigin*>(mark) : nullptr;
}

}  // namespace framejit::runtime
