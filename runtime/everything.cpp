#include "runtime/everything.h"

#include "eval_frame/hook.h"
#include "runtime/engine.h"
#include "runtime/frame_handler.h"

namespace framejit::runtime {
namespace {

// A process without tensors: nothing is one, and all graphs are empty.
class NoTensors final : public TensorRuntime {
 public:
  bool is_tensor(PyObject*) override { return false; }
  bool is_fake(PyObject*) override { return false; }
  const char* why_not_capturable(PyObject*) override { return "there is no tensor library"; }
  void begin(graph::Capture*, const RefusedNode&) override {}
  void end() override {}
  Ref make_input(PyObject*, graph::SourceId) override { return nullptr; }
  graph::TensorFacts facts(PyObject*) override { return {}; }
  uint64_t global_state() override { return 0; }
  bool has_other_autocast() override { return false; }
  void set_location(graph::LocationId) override {}
  bool take_stop(std::string*, std::string*) override { return false; }
  graph::ValueId value_of(PyObject*) override { return {}; }
  std::vector<Ref> begin_body(const std::vector<PyObject*>&) override { return {}; }
  bool end_body(const std::vector<PyObject*>&, std::string*) override { return false; }
  std::vector<Ref> record_cond(PyObject*, std::string*) override { return {}; }
  std::vector<Ref> record_while_loop(const std::vector<PyObject*>&, std::string*) override { return {}; }
  bool finish(const std::vector<PyObject*>& outputs, std::string*, RefusedNode*) override { return outputs.empty(); }
  std::unique_ptr<Executable> compile(graph::Capture&, PyObject*, std::string* why_not) override {
    *why_not = "there is no tensor library";
    return nullptr;
  }
  TensorGuards guards() override {
    return {[](const graph::TensorFacts&, std::vector<uint64_t>&) {},
            [](PyObject*, const uint64_t*) { return false; },
            [](TensorRows&) {},
            [](const TensorRows&) { return size_t{0}; },
            [](PyObject*) { return true; },
            [] { return uint64_t{0}; }};
  }
};

}  // namespace

bool capture_everything() {
  static NoTensors no_tensors;
  if (engine().everything) return true;
  if (!engine().tensors()) engine().start(&no_tensors);
  engine().everything = true;
  install_frame_handler();
  framejit_hook_enter_everywhere(PyThreadState_Get());
  return true;
}

}  // namespace framejit::runtime
