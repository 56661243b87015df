#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "codegen/kernels/cuda/driver.h"
#include "codegen/kernels/cuda/launch.h"
#include "codegen/kernels/cuda/nvrtc.h"
#include "codegen/kernels/cuda/operations.h"
#include "codegen/kernels/cuda/source.h"
#include "codegen/kernels/kernel_builder.h"

namespace framejit::codegen {
namespace {

using graph::DType;
using Op = graph::ExpressionOp;

// `count` inputs, their sum, and what it is by rows.
Kernel sum_of(size_t count, bool by_rows = false) {
  KernelBuilder builder;
  for (size_t i = 0; i < count; ++i) builder.kernel().buffers.push_back({DType::kF32, Access::kContiguous});
  builder.kernel().buffers.push_back({DType::kF32, by_rows ? Access::kUniform : Access::kContiguous, true});
  int16_t sum = builder.load(0);
  for (size_t i = 1; i < count; ++i) sum = builder.compute(Op::kAdd, {sum, builder.load(static_cast<uint16_t>(i)), -1});
  builder.store(static_cast<uint16_t>(count), by_rows ? builder.reduce(Op::kSum, sum) : sum);
  return builder.take();
}

Loop loop_of(std::vector<int64_t> sizes, size_t buffers) {
  Loop loop;
  loop.strides.assign(buffers, std::vector<int64_t>(sizes.size(), 4));
  loop.sizes = std::move(sizes);
  return loop;
}

CudaLaunch launch_of(const Kernel& kernel, const Loop& loop) {
  CudaLaunch launch;
  std::string why_not;
  EXPECT_TRUE(make_cuda_launch(kernel, loop, &launch, &why_not)) << why_not;
  return launch;
}

TEST(CudaTest, EachOperationHasAForm) {
#define EXPRESSION(name, spelling, operands, result, types) EXPECT_NE(cuda_form(Op::k##name), nullptr) << #name;
#define REDUCTION(name, spelling, operands, result, types) EXPECT_NE(cuda_form(graph::combining(Op::k##name)), nullptr);
#include "graph/expression.def"
#undef EXPRESSION
#undef REDUCTION
  EXPECT_EQ(cuda_form(Op::kArgument), nullptr);
}

TEST(CudaTest, ArgumentsAreCountBuffersSizesAndStrides) {
  Loop loop = loop_of({3, 5}, 2);
  loop.strides = {{20, 4}, {0, 8}};
  const CudaLaunch launch = launch_of(sum_of(1), loop);
  EXPECT_EQ(launch.arguments, (std::vector<int64_t>{15, 0, 0, 3, 5, 20, 4, 0, 8}));
}

TEST(CudaTest, AnElementForEachThreadUpToAGridThatWalks) {
  CudaLaunch launch = launch_of(sum_of(1), loop_of({1000}, 2));
  EXPECT_EQ((std::vector{launch.blocks, launch.width, launch.lines}), (std::vector{4u, 256u, 1u}));
  launch = launch_of(sum_of(1), loop_of({int64_t{1} << 40}, 2));
  EXPECT_EQ(launch.blocks, 1u << 16);
}

TEST(CudaTest, ALineOfABlockForEachRow) {
  CudaLaunch launch = launch_of(sum_of(1, true), loop_of({100, 33}, 2));
  EXPECT_EQ((std::vector{launch.blocks, launch.width, launch.lines}), (std::vector{25u, 64u, 4u}));
  EXPECT_EQ(launch.arguments[0], 100);
  launch = launch_of(sum_of(1, true), loop_of({100, 5000}, 2));
  EXPECT_EQ((std::vector{launch.blocks, launch.width, launch.lines}), (std::vector{100u, 256u, 1u}));
  launch = launch_of(sum_of(1, true), loop_of({2}, 2));
  EXPECT_EQ((std::vector{launch.blocks, launch.width, launch.lines}), (std::vector{1u, 32u, 8u}));
}

TEST(CudaTest, MoreArgumentsThanALaunchTakesAreRefused) {
  CudaLaunch launch;
  std::string why_not;
  EXPECT_TRUE(make_cuda_launch(sum_of(250), loop_of({8}, 251), &launch, &why_not));
  EXPECT_FALSE(make_cuda_launch(sum_of(260), loop_of({8}, 261), &launch, &why_not));
  EXPECT_EQ(why_not, "more buffers than a launch on a CUDA device takes");
}

TEST(CudaTest, IndicesAreWideWhereThereAreMoreElementsThan32BitsCount) {
  EXPECT_FALSE(cuda_shape(loop_of({(int64_t{1} << 31) - 1}, 1)).wide);
  EXPECT_TRUE(cuda_shape(loop_of({int64_t{1} << 31}, 1)).wide);
  EXPECT_TRUE(cuda_shape(loop_of({1 << 16, 1 << 16}, 1)).wide);
  const CudaSource narrow = cuda_source(sum_of(1), {2, false}), wide = cuda_source(sum_of(1), {2, true});
  EXPECT_NE(narrow.text.find("const unsigned i1"), std::string::npos);
  EXPECT_NE(wide.text.find("const long long i1"), std::string::npos);
  EXPECT_NE(narrow.name, wide.name);
  EXPECT_EQ(narrow.name, cuda_source(sum_of(1), {2, false}).name);
}

TEST(CudaTest, CompilersAreSoughtInFoldersFirst) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "nvrtc_folder";
  std::filesystem::create_directories(folder);
  for (const char* name : {"libnvrtc.so.12", "libnvrtc-builtins.so.12.1", "libnvrtc.alt.so.12", "libcudart.so.12"})
    std::ofstream(folder / name) << "none";
  const std::vector<std::string> names = nvrtc_names({"/nowhere", folder.string()});
  EXPECT_EQ(names.front(), (folder / "libnvrtc.so.12").string());
  EXPECT_EQ(names.back(), "libnvrtc.so");
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const std::string& name) { return name[0] == '/'; }), 1);
  std::filesystem::remove_all(folder);
}

TEST(CudaTest, WithoutLibrariesThereIsAReason) {
  const Nvrtc nvrtc({"/nowhere/libnvrtc.so"});
  std::string cubin, why_not;
  EXPECT_FALSE(nvrtc.compile("", "sm_80", &cubin, &why_not));
  EXPECT_NE(why_not.find("/nowhere/libnvrtc.so"), std::string::npos) << why_not;
  CudaDriver driver({"/nowhere/libcuda.so.1"});
  EXPECT_EQ(driver.architecture(0, &why_not), "");
  EXPECT_EQ(why_not, driver.why_not());
  EXPECT_EQ(driver.load(0, "", "kernel", &why_not), nullptr);
  // A library without the functions is none.
  const Nvrtc other({"libc.so.6"});
  EXPECT_EQ(other.why_not(), "NVRTC: it has no nvrtcVersion");
}

}  // namespace
}  // namespace framejit::codegen
