// Operators that a C++ extension registers, for test_cpp_operators.py.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

using at::Tensor;

int64_t calls = 0;  // of all kernels below

Tensor scaled(const Tensor& x, double by) {
  ++calls;
  return x.mul(by);
}
Tensor scaled_meta(const Tensor& x, double by) { return at::empty_like(x); }

Tensor opaque(const Tensor& x) {
  ++calls;
  return x.sin();
}

std::tuple<Tensor, Tensor> two(const Tensor& x, const c10::optional<Tensor>& y, c10::string_view how) {
  ++calls;
  return {y ? x.add(*y) : x.clone(), x.sum().mul(static_cast<int64_t>(how.size()))};
}
std::tuple<Tensor, Tensor> two_meta(const Tensor& x, const c10::optional<Tensor>& y, c10::string_view how) {
  return {at::empty_like(x), at::empty({}, x.options())};
}

std::vector<Tensor> parts(const Tensor& x, at::IntArrayRef sizes) {
  ++calls;
  std::vector<Tensor> made;
  for (const Tensor& part : x.split_with_sizes(sizes)) made.push_back(part.clone());
  return made;
}
std::vector<Tensor> parts_meta(const Tensor& x, at::IntArrayRef sizes) {
  std::vector<Tensor> made;
  for (int64_t size : sizes) made.push_back(at::empty({size}, x.options()));
  return made;
}

void add_in_place(Tensor& x, double amount) {
  ++calls;
  x.add_(amount);
}
void add_in_place_meta(Tensor& x, double amount) {}

Tensor first(const Tensor& x) { return x.select(0, 0); }

Tensor sized_by_data(const Tensor& x) {
  ++calls;
  return x.new_zeros({x.sum().item<int64_t>()});
}

Tensor refuses(const Tensor& x) {
  ++calls;
  TORCH_CHECK_VALUE(false, "refused by C++");
}
Tensor like(const Tensor& x) { return at::empty_like(x); }

// The gradients are not those of the formula, so that it shows whose ran.
Tensor cube(const Tensor& x) {
  ++calls;
  return x * x * x;
}
Tensor call_below(const char* name, const Tensor& x) {
  at::AutoDispatchBelowADInplaceOrView below;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor&)>().call(x);
}
template <const char* const& kName>
struct Cube : torch::autograd::Function<Cube<kName>> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return call_below(kName, x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {gradients[0] * x * x * 30};
  }
};
const char* const kCube = "framejit_cpp::cube";
const char* const kOpaqueCube = "framejit_cpp::opaque_cube";
Tensor cube_with_gradient(const Tensor& x) { return Cube<kCube>::apply(x); }
Tensor opaque_cube_with_gradient(const Tensor& x) { return Cube<kOpaqueCube>::apply(x); }

Tensor composed(const Tensor& x) { return x.sin() * x.cos(); }
void composed_in_place(Tensor& x, double amount) { x.add_(amount); }

}  // namespace

TORCH_LIBRARY(framejit_cpp, m) {
  m.def("scaled(Tensor x, float by=2.0) -> Tensor");
  m.def("opaque(Tensor x) -> Tensor");
  m.def("two(Tensor x, Tensor? y, str how) -> (Tensor, Tensor)");
  m.def("parts(Tensor x, int[] sizes) -> Tensor[]");
  m.def("add_(Tensor(a!) x, float amount) -> ()");
  m.def("first(Tensor(a) x) -> Tensor(a)");
  m.def("sized_by_data(Tensor x) -> Tensor");
  m.def("refuses(Tensor x) -> Tensor");
  m.def("cube(Tensor x) -> Tensor");
  m.def("opaque_cube(Tensor x) -> Tensor");
  m.def("composed(Tensor x) -> Tensor", &composed);
  m.def("everywhere(Tensor x) -> Tensor");
  m.def("composed_(Tensor(a!) x, float amount) -> ()", &composed_in_place);
  m.def("calls() -> int", [] { return calls; });
  m.def("calls_seen_by(Tensor x) -> int", [](const Tensor& x) { return calls; });
  m.def("count_a_call(Tensor x) -> ()", [](const Tensor& x) { ++calls; });
  m.def("tensor_of_calls() -> Tensor", [] { return at::full({}, calls); });
}

TORCH_LIBRARY_IMPL(framejit_cpp, CPU, m) {
  m.impl("scaled", &scaled);
  m.impl("opaque", &opaque);
  m.impl("two", &two);
  m.impl("parts", &parts);
  m.impl("add_", &add_in_place);
  m.impl("first", &first);
  m.impl("sized_by_data", &sized_by_data);
  m.impl("refuses", &refuses);
  m.impl("cube", &cube);
  m.impl("opaque_cube", &cube);
}

TORCH_LIBRARY_IMPL(framejit_cpp, Meta, m) {
  m.impl("scaled", &scaled_meta);
  m.impl("two", &two_meta);
  m.impl("parts", &parts_meta);
  m.impl("add_", &add_in_place_meta);
  m.impl("first", &first);
  m.impl("refuses", &like);
  m.impl("cube", &like);
}

TORCH_LIBRARY_IMPL(framejit_cpp, CompositeExplicitAutograd, m) { m.impl("everywhere", &opaque); }

TORCH_LIBRARY_IMPL(framejit_cpp, Autograd, m) {
  m.impl("cube", &cube_with_gradient);
  m.impl("opaque_cube", &opaque_cube_with_gradient);
}
