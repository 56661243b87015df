#include "codegen/kernels/cuda/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernels/cuda/operations.h"
#include "codegen/kernels/cuda/prelude.h"
#include "codegen/kernels/disk_cache.h"

namespace framejit::codegen {

namespace {

class Writer {
 public:
  Writer(const Kernel& kernel, const CudaShape& shape, std::string name)
      : kernel_(kernel),
        facts_(facts_of(kernel)),
        name_(std::move(name)),
        dimensions_(shape.dimensions),
        outer_(shape.dimensions - kernel.depth),
        index_(shape.wide ? "long long" : "unsigned") {}

  std::string elementwise() {
    head();
    const std::string size = fmt::format("({})blockDim.x", index_);
    line(1, "for ({0} at = blockIdx.x * {1} + threadIdx.x; at < a.count; at += gridDim.x * {1}) {{", index_, size);
    position(2, "at", "i", 0, dimensions_);
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) line(2, "char* const p{} = {};", b, address(b, dimensions_));
    for (size_t s = 0; s < kernel_.steps.size(); ++s) step(2, s, "");
    return close();
  }

  // All threads of a block come to each barrier: lines beyond the last row walk over no element of the first.
  std::string rows() {
    head();
    const std::string lines = fmt::format("({})blockDim.y", index_);
    line(1, "__shared__ unsigned long long shared[{}];", kCudaThreads);
    line(1, "const unsigned line = threadIdx.y * blockDim.x;");
    line(1, "for ({0} first = blockIdx.x * {1}; first < a.count; first += gridDim.x * {1}) {{", index_, lines);
    line(2, "const bool live = first + threadIdx.y < a.count;");
    std::string length;
    for (size_t d = outer_; d < dimensions_; ++d)
      length += fmt::format("{}({})a.sizes[{}]", length.empty() ? "" : " * ", index_, d);
    line(2, "const {} count = live ? {} : 0;", index_, length);
    position(2, fmt::format("live ? first + threadIdx.y : ({})0", index_), "i", 0, outer_);
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) line(2, "char* const p{} = {};", b, address(b, outer_));
    uint16_t last = 0;
    for (const StepFacts& facts : facts_) last = std::max(last, facts.level);
    for (uint16_t level = 0; level <= last; ++level) {
      for (size_t s = 0; s < kernel_.steps.size(); ++s)
        if (facts_[s].uniform && facts_[s].level == level && kernel_.steps[s].kind != Step::Kind::kReduce)
          step(2, s, "if (live && threadIdx.x == 0) ");
      pass(level);
    }
    return close();
  }

 private:
  template <class... Args>
  void line(int depth, fmt::format_string<Args...> form, Args&&... args) {
    text_.append(static_cast<size_t>(depth) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), form, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void head() {
    line(0, "struct {}_arguments {{", name_);
    line(1, "long long count;");
    line(1, "char* buffers[{}];", kernel_.buffers.size());
    line(1, "long long sizes[{}];", dimensions_);
    line(1, "long long strides[{}][{}];", kernel_.buffers.size(), dimensions_);
    line(0, "}};");
    line(0, "extern \"C\" __global__ void __launch_bounds__({0}) {1}(const {1}_arguments a) {{", kCudaThreads, name_);
  }

  std::string close() {
    line(1, "}}");
    line(0, "}}");
    return std::move(text_);
  }

  // Where `linear` lies along the dimensions from `begin` to `end`: i0, i1, ... of that name.
  void position(int depth, const std::string& linear, const char* name, size_t begin, size_t end) {
    if (begin == end) return;
    line(depth, "{} rest = {};", index_, linear);
    for (size_t d = end; --d > begin;) {
      line(depth, "const {0} {1}{2} = rest % ({0})a.sizes[{2}];", index_, name, d);
      line(depth, "rest /= ({})a.sizes[{}];", index_, d);
    }
    line(depth, "const {} {}{} = rest;", index_, name, begin);
  }

  // Of the element at i0, i1, ..., of `dimensions`.
  std::string address(size_t buffer, size_t dimensions) const {
    std::string text = fmt::format("a.buffers[{}]", buffer);
    for (size_t d = 0; d < dimensions; ++d) text += along(buffer, d, fmt::format("i{}", d));
    return text;
  }

  std::string along(size_t buffer, size_t dimension, const std::string& index) const {
    const Buffer& of = kernel_.buffers[buffer];
    const bool in_stretch = dimension + 1 == dimensions_;
    if (dimension >= outer_ && of.access == Access::kUniform) return {};
    if (in_stretch && of.access == Access::kStretched) return {};
    if (in_stretch && of.access == Access::kContiguous)
      return fmt::format(" + (long long){} * {}", index, graph::itemsize(of.dtype));
    return fmt::format(" + (long long){} * a.strides[{}][{}]", index, buffer, dimension);
  }

  // Of the element that a step of a pass takes, or of the row.
  std::string place(const Step& step, bool in_pass) const {
    std::string text = fmt::format("p{}", step.buffer);
    if (!in_pass) return text;
    if (kernel_.depth == 1) return text + along(step.buffer, outer_, "e");
    for (size_t d = outer_; d < dimensions_; ++d) text += along(step.buffer, d, fmt::format("e{}", d));
    return text;
  }

  void pass(uint16_t level) {
    const std::vector<size_t> ends = ends_of_pass(kernel_, facts_, level);
    if (ends.empty()) return;
    const std::vector<bool> needed = needed_in_pass(kernel_, facts_, ends);
    std::vector<size_t> reductions;
    for (size_t s : ends) {
      const Step& end = kernel_.steps[s];
      if (end.kind != Step::Kind::kReduce) continue;
      reductions.push_back(s);
      line(2, "{} s{} = {};", cuda_type(end.type), s, cuda_start(end.op, end.type));
    }
    line(2, "for ({} e = threadIdx.x; e < count; e += blockDim.x) {{", index_);
    if (kernel_.depth > 1) position(3, "e", "e", outer_, dimensions_);
    for (size_t s = 0; s < needed.size(); ++s)
      if (needed[s] && kernel_.steps[s].kind != Step::Kind::kReduce) step(3, s, "", true);
    for (size_t s : reductions) {
      const Step& end = kernel_.steps[s];
      line(3, "s{} = {};", s, combined(end, fmt::format("s{}", s), fmt::format("v{}", end.operands[0])));
    }
    line(2, "}}");
    for (size_t s : reductions) across(s);
  }

  static std::string combined(const Step& reduction, const std::string& a, const std::string& b) {
    return fmt::format(fmt::runtime(cuda_form(graph::combining(reduction.op))), a, b);
  }

  // What the threads of a line have becomes one value that all of them know. In halves: their number is a power of two.
  void across(size_t s) {
    const Step& step = kernel_.steps[s];
    const char* type = cuda_type(step.type);
    line(2, "{} v{};", type, s);
    line(2, "{{");
    line(3, "{0}* const t = reinterpret_cast<{0}*>(shared) + line;", type);
    line(3, "t[threadIdx.x] = s{};", s);
    line(3, "__syncthreads();");
    line(3, "for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {{");
    line(4, "if (threadIdx.x < half) t[threadIdx.x] = {};", combined(step, "t[threadIdx.x]", "t[threadIdx.x + half]"));
    line(4, "__syncthreads();");
    line(3, "}}");
    line(3, "v{} = t[0];", s);
    line(3, "__syncthreads();");
    line(2, "}}");
  }

  void step(int depth, size_t s, const char* when, bool in_pass = false) {
    const Step& step = kernel_.steps[s];
    if (step.kind == Step::Kind::kStore) {
      const graph::DType dtype = kernel_.buffers[step.buffer].dtype;
      line(depth, "{}{};", when, cuda_store(dtype, place(step, in_pass), value(step, 0)));
    } else {
      line(depth, "const {} v{} = {};", cuda_type(step.type), s, expression(step, in_pass));
    }
  }

  std::string expression(const Step& step, bool in_pass) const {
    switch (step.kind) {
      case Step::Kind::kLoad:
        return cuda_load(kernel_.buffers[step.buffer].dtype, place(step, in_pass));
      case Step::Kind::kConstant:
        return cuda_number(step.number, step.integer, step.type);
      case Step::Kind::kConvert:
        return cuda_convert(step.type, value(step, 0));
      case Step::Kind::kRound:
        return cuda_round(step.storage, value(step, 0));
      default:
        return fmt::format(fmt::runtime(cuda_form(step.op)), value(step, 0), value(step, 1), value(step, 2));
    }
  }

  static std::string value(const Step& step, size_t operand) { return fmt::format("v{}", step.operands[operand]); }

  const Kernel& kernel_;
  const std::vector<StepFacts> facts_;
  const std::string name_;
  const size_t dimensions_;
  const size_t outer_;  // of them: those before the row's
  const char* const index_;
  std::string text_;
};

}  // namespace

CudaShape cuda_shape(const Loop& loop) { return {loop.sizes.size(), loop.rows() * loop.row() >= int64_t{1} << 31}; }

bool has_reductions(const Kernel& kernel) {
  return std::any_of(kernel.steps.begin(), kernel.steps.end(),
                     [](const Step& step) { return step.kind == Step::Kind::kReduce; });
}

CudaSource cuda_source(const Kernel& kernel, const CudaShape& shape) {
  const std::string key = fmt::format("{} {} {}", shape.dimensions, shape.wide, to_string(kernel));
  const std::string name = "kernel_" + digest_of(key);
  Writer writer(kernel, shape, name);
  return {name, kCudaPrelude + (has_reductions(kernel) ? writer.rows() : writer.elementwise())};
}

}  // namespace framejit::codegen
