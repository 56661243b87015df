// NVRTC and CUDA's driver as one library, for machines without a device: the compiler is the host's, modules are shared
// libraries, memory is the host's. The threads of a block are fibers that change at barriers. SHIM is host_cuda.h's
// path.
#include <dlfcn.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Place {
  unsigned x, y, z;
};

struct Program {
  std::string text, log, code;
};

struct Function {
  void (*call)(void* arguments);
  Place *thread, *block, *block_size, *grid_size;
  void (**wait)();
  int64_t context;
};

struct Module {
  void* library;
  int64_t context;
};

thread_local std::vector<int64_t> contexts;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "kernel_..." of `extern "C" __global__ void ... kernel_...(`.
std::string name_in(const std::string& text) {
  const size_t end = text.find("(const kernel_");
  return end == std::string::npos ? "" : text.substr(text.rfind(' ', end) + 1, end - text.rfind(' ', end) - 1);
}

constexpr size_t kStack = 16 << 10;
constexpr size_t kMostThreads = 256;

// The block that this thread runs.
struct Block {
  const Function* function;
  void* arguments;
  ucontext_t scheduler;
  std::vector<ucontext_t> fibers;
  std::vector<bool> done;
  size_t current;
};
Block* running = nullptr;

void wait() { swapcontext(&running->fibers[running->current], &running->scheduler); }

void fiber() {
  running->function->call(running->arguments);
  running->done[running->current] = true;
}

void run_block(const Function& function, Place size, void* arguments) {
  const size_t count = size_t{size.x} * size.y * size.z;
  static char* const stacks = static_cast<char*>(std::malloc(kMostThreads * kStack));
  Block block{&function, arguments, {}, std::vector<ucontext_t>(count), std::vector<bool>(count), 0};
  running = &block;
  for (size_t t = 0; t < count; ++t) {
    getcontext(&block.fibers[t]);
    block.fibers[t].uc_stack.ss_sp = stacks + t * kStack;
    block.fibers[t].uc_stack.ss_size = kStack;
    block.fibers[t].uc_link = &block.scheduler;
    makecontext(&block.fibers[t], fiber, 0);
  }
  // From one barrier to the next: all threads of a block come to each.
  for (size_t left = count; left > 0;) {
    for (size_t t = 0; t < count; ++t) {
      if (block.done[t]) continue;
      block.current = t;
      const auto number = static_cast<unsigned>(t);
      *function.thread = {number % size.x, number / size.x % size.y, number / size.x / size.y};
      swapcontext(&block.scheduler, &block.fibers[t]);
      left -= block.done[t];
    }
  }
  running = nullptr;
}

}  // namespace

extern "C" {

// What tests ask and set.
int launches = 0, compilations = 0, loads = 0;
unsigned last_grid = 0, last_width = 0, last_lines = 0;
int64_t last_stream = 0, last_context = 0;
char last_options[512];
char failing[64];            // the function that fails
char work_folder[256];       // where kernels are compiled
unsigned most_blocks = ~0u;  // of a launch: kernels do not rest on how many there are
int is_failing(const char* name) { return std::strcmp(name, failing) == 0 ? 719 : 0; }

int nvrtcVersion(int* major, int* minor) {
  *major = 0;
  *minor = 1;
  return 0;
}
int nvrtcCreateProgram(Program** made, const char* text, const char*, int, const char* const*, const char* const*) {
  *made = new Program{text, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  std::string given;
  for (int i = 0; i < count; ++i) given += std::string(options[i]) + " ";
  std::snprintf(last_options, sizeof last_options, "%s", given.c_str());
  ++compilations;
  if (is_failing("nvrtcCompileProgram")) {
    program->log = "no such luck";
    return 6;
  }
  const std::string name = name_in(program->text), path = std::string(work_folder) + "/" + name;
  std::ofstream(path + ".cpp") << program->text << "\nextern \"C\" void call_" << name << "(void* a) { " << name
                               << "(*(const " << name << "_arguments*)a); }\n";
  const std::string log = " 2>>" + path + ".log", object = path + ".o";
  const std::string compile =
      COMPILER " -std=c++17 -O1 -ffp-contract=off -fno-strict-aliasing -w -fPIC -include " SHIM " -c -o ";
  const std::string command =
      compile + object + " " + path + ".cpp" + log + " && g++ -shared -o " + path + ".so " + object + log;
  if (std::system(command.c_str()) != 0) {
    program->log = contents(path + ".log");
    return 6;
  }
  program->code = path + ".so";
  return 0;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->code.size() + 1;
  return 0;
}
int nvrtcGetCUBIN(Program* program, char* code) {
  std::memcpy(code, program->code.c_str(), program->code.size() + 1);
  return 0;
}
const char* nvrtcGetErrorString(int status) { return status == 6 ? "FAKE_COMPILATION" : "FAKE_ERROR"; }

int cuInit(unsigned) { return is_failing("cuInit"); }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal + 10;  // a handle is no ordinal
  return is_failing("cuDeviceGet");
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? (device == 10 ? 9 : 8) : 0;
  return is_failing("cuDeviceGetAttribute");
}
int cuDevicePrimaryCtxRetain(int64_t* context, int device) {
  *context = device + 100;
  return is_failing("cuDevicePrimaryCtxRetain");
}
int cuCtxGetCurrent(int64_t* context) {
  *context = contexts.empty() ? 0 : contexts.back();
  return 0;
}
int cuCtxPushCurrent_v2(int64_t context) {
  contexts.push_back(context);
  return 0;
}
int cuCtxPopCurrent_v2(int64_t* context) {
  if (contexts.empty()) return 201;
  *context = contexts.back();
  contexts.pop_back();
  return 0;
}
size_t context_count() { return contexts.size(); }
int cuModuleLoadData(Module** module, const void* image) {
  if (int status = is_failing("cuModuleLoadData")) return status;
  ++loads;
  if (contexts.empty()) return 201;
  void* library = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 200;
  *module = new Module{library, contexts.back()};
  return 0;
}
int cuModuleGetFunction(Function** made, Module* module, const char* name) {
  void* call = dlsym(module->library, (std::string("call_") + name).c_str());
  if (!call) return 500;
  auto place = [&](const char* what) { return static_cast<Place*>(dlsym(module->library, what)); };
  *made = new Function{reinterpret_cast<void (*)(void*)>(call),
                       place("threadIdx"),
                       place("blockIdx"),
                       place("blockDim"),
                       place("gridDim"),
                       reinterpret_cast<void (**)()>(dlsym(module->library, "wait_for_block")),
                       module->context};
  return 0;
}
int cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned, int64_t stream, void** arguments, void** extra) {
  if (int status = is_failing("cuLaunchKernel")) return status;
  if (contexts.empty() || contexts.back() != function->context) return 201;
  if (bx * by * bz > kMostThreads || gy != 1 || gz != 1 || gx == 0 || extra) return 1;
  ++launches;
  last_grid = gx, last_width = bx, last_lines = by, last_stream = stream, last_context = function->context;
  gx = gx < most_blocks ? gx : most_blocks;
  *function->grid_size = {gx, gy, gz};
  *function->block_size = {bx, by, bz};
  *function->wait = wait;
  for (unsigned b = 0; b < gx; ++b) {
    *function->block = {b, 0, 0};
    run_block(*function, {bx, by, bz}, arguments[0]);
  }
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "fake error";
  return 0;
}

}  // extern "C"
