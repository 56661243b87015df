#include "runtime/torch/input_fake.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "base/once.h"
#include "runtime/torch/names.h"
#include "runtime/torch/node_pointer.h"
#include "runtime/torch/py_tensor.h"

namespace framejit::torchlib {
namespace {

using torch::autograd::Node;

// Where the autograd graph of a real tensor begins. Gradients stop there, so it never runs.
class OutsideNode final : public Node {
 public:
  std::string name() const override { return "OutsideOfCapture"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, "framejit: a gradient left the captured code");
  }
};

void set_history(const at::Tensor& fake, const at::Tensor& real) {
  if (!real.requires_grad()) return;
  if (real.is_leaf()) {
    fake.unsafeGetTensorImpl()->set_requires_grad(true);
    return;
  }
  NodePtr node = make_node<OutsideNode>();
  uint32_t output = node->add_input_metadata(fake);
  torch::autograd::impl::set_gradient_edge(fake, {node, output});
}

// Whether the type has a `__torch_function__` of its own.
bool overrides_functions(PyTypeObject* type) {
  static PyObject* name = PyUnicode_InternFromString("__torch_function__");
  PyObject* disabled = once_under_lock([] {
    Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
    return module ? PyObject_GetAttrString(module.get(), "_disabled_torch_function_impl") : nullptr;
  });
  PyObject* found = _PyType_Lookup(type, name);
  if (!found || found == disabled) return false;
  return found != _PyType_Lookup(tensor_type(), name);
}

}  // namespace

bool is_outside_node(const Node& node) { return dynamic_cast<const OutsideNode*>(&node) != nullptr; }

const char* why_not_strided(const at::Tensor& tensor) {
  using c10::DispatchKey;
  if (!tensor.defined()) return "an undefined tensor";
  c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(DispatchKey::Fake)) return "a fake tensor of another capture";
  if (keys.has_any(c10::DispatchKeySet({DispatchKey::Python, DispatchKey::PythonTLSSnapshot})))
    return "a tensor subclass with __torch_dispatch__";
  if (keys.has_any(c10::DispatchKeySet({DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                        DispatchKey::Functionalize, DispatchKey::FuncTorchVmapMode})))
    return "a tensor inside of a functorch transform";
  if (tensor.layout() != c10::kStrided) return "a tensor whose layout is not strided";
  if (tensor.is_quantized()) return "a quantized tensor";
  if (keys.has(DispatchKey::ZeroTensor) || keys.has(DispatchKey::NestedTensor)) return "a tensor of a special kind";
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return "a tensor with symbolic sizes";
  if (has_names(tensor)) return "a tensor with named dimensions";
  if (!tensor.has_storage()) return "a tensor without storage";
  if (torch::autograd::impl::get_autograd_meta(tensor) && tensor._fw_grad(0).defined())
    return "a tensor with a forward-mode gradient";
  if (tensor.is_inference() && tensor.requires_grad()) return "an inference tensor that requires grad";
  return nullptr;
}

const char* why_not_input(PyObject* real) {
  if (const char* why = why_not_strided(unpack_tensor(real))) return why;
  PyTypeObject* type = Py_TYPE(real);
  if (type != tensor_type() && type != parameter_type() && overrides_functions(type))
    return "a tensor subclass with __torch_function__";
  // What stands for the tensor takes its class on.
  if (type->tp_basicsize != tensor_type()->tp_basicsize) return "a tensor subclass with slots";
  return nullptr;
}

PyObject* make_input_fake(Recording& recording, PyObject* real) {
  static PyObject* const name_of_class = PyUnicode_InternFromString("__class__");
  const at::Tensor& tensor = unpack_tensor(real);
  InputFake input;
  input.fake = recording.recorder.add_input(tensor);
  input.value = fake_impl(input.fake)->value();
  set_history(input.fake, tensor);
  input.requires_grad = input.fake.requires_grad();
  input.is_view = tensor.is_view();
  input.grad_fn = input.fake.grad_fn().get();
  if (!input.fake.is_inference()) input.version = static_cast<uint32_t>(input.fake._version());
  Ref object = Ref::steal(wrap_tensor(input.fake));
  if (!object) return nullptr;
  PyTypeObject* type = Py_TYPE(real);
  if (type != Py_TYPE(object.get()) &&
      PyObject_SetAttr(object.get(), name_of_class, reinterpret_cast<PyObject*>(type)) < 0)
    return nullptr;
  recording.inputs.push_back(std::move(input));
  return object.release();
}

at::Tensor make_number_input(Recording& recording) {
  InputFake input;
  input.fake = recording.recorder.add_input(graph::number_meta());
  input.value = fake_impl(input.fake)->value();
  recording.inputs.push_back(input);
  return input.fake;
}

}  // namespace framejit::torchlib
