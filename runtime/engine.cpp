#include "runtime/engine.h"

#include <algorithm>

#include "base/check.h"
#include "eval_frame/hook.h"
#include "runtime/cache/code_cache.h"

namespace framejit::runtime {

Engine& engine() {
  static auto* const instance = new Engine;  // never destroyed: Python objects may outlive static destructors
  return *instance;
}

namespace {

PyObject* run_eagerly_from_now(PyObject*, PyObject*) {
  engine().enabled = false;
  Py_RETURN_NONE;
}

// Finalizers still run when the interpreter has no modules any more: nothing can be captured there.
void stop_at_exit() {
  static PyMethodDef method = {"run_eagerly_from_now", run_eagerly_from_now, METH_NOARGS, nullptr};
  Ref callback = Ref::steal(PyCFunction_New(&method, nullptr));
  Ref atexit = Ref::steal(PyImport_ImportModule("atexit"));
  FJ_CHECK(callback && atexit, "cannot watch for the end of the interpreter");
  Ref done = Ref::steal(PyObject_CallMethod(atexit.get(), "register", "O", callback.get()));
  FJ_CHECK(static_cast<bool>(done), "cannot watch for the end of the interpreter");
}

}  // namespace

void Engine::start(TensorRuntime* tensors) {
  stop_at_exit();
  tensors_ = tensors;
  tensor_guards_ = tensors->guards();
}

PyObject* Engine::on_code_end(PyObject*, PyObject* watch) {
  Engine& self = engine();
  auto code = self.watch_codes_.find(watch);
  if (code == self.watch_codes_.end()) Py_RETURN_NONE;
  auto found = self.rows_.find(code->second);
  CodeRow row = std::move(found->second);
  self.rows_.erase(found);
  self.watch_codes_.erase(code);
  if (row.cache) row.cache->dispose();
  Py_RETURN_NONE;
}

Engine::CodeRow& Engine::row(PyObject* code) {
  static PyMethodDef method = {"on_code_end", on_code_end, METH_O, nullptr};
  static PyObject* const callback = PyCFunction_New(&method, nullptr);
  if (auto found = rows_.find(code); found != rows_.end()) return found->second;
  auto info = std::make_shared<const CodeInfo>(bytecode::decode(code), is_standard(code));
  Ref watch = Ref::steal(PyWeakref_NewRef(code, callback));
  FJ_CHECK(static_cast<bool>(watch), "out of memory");
  watch_codes_.emplace(watch.get(), code);
  return rows_.emplace(code, CodeRow{std::move(info), nullptr, std::move(watch)}).first->second;
}

CodeInfoPtr Engine::code_info(PyObject* code) { return row(code).info; }

std::shared_ptr<CodeCache> Engine::shared_cache(PyObject* code) {
  CodeRow& found = row(code);
  if (!found.cache) found.cache = std::make_shared<CodeCache>(found.info, nullptr);
  return found.cache;
}

void Engine::add_owned_cache(const std::shared_ptr<CodeCache>& cache) {
  if (owned_caches_.size() == owned_caches_.capacity())
    owned_caches_.erase(std::remove_if(owned_caches_.begin(), owned_caches_.end(), [](auto& c) { return c.expired(); }),
                        owned_caches_.end());
  owned_caches_.push_back(cache);
}

void Engine::reset() {
  auto rows = std::move(rows_);
  rows_.clear();
  watch_codes_.clear();
  stats = Stats();
  for (auto& [code, row] : rows) {
    if (!row.cache) continue;
    if (const CodeMark* mark = code_mark(code); mark && *mark == CodeMark::kGivenUp)
      set_code_mark(code, CodeMark::kUser);
    row.cache->dispose();
  }
  for (auto& owned : std::vector<std::weak_ptr<CodeCache>>(owned_caches_))
    if (auto cache = owned.lock()) cache->dispose();
}

namespace {

bool is_of_folder(PyObject* code, const PrefixSet& prefixes) {
  const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code)->co_filename);
  if (!file) PyErr_Clear();
  return !file || !*file || prefixes.begins(file);
}

}  // namespace

bool Engine::is_standard(PyObject* code) const { return is_of_folder(code, standard_prefixes); }
bool Engine::is_skipped(PyObject* code) const { return is_standard(code) || is_of_folder(code, library_prefixes); }

bool Engine::mark_eager(PyObject* code) {
  set_code_mark(code, CodeMark::kEager);
  return !PyErr_Occurred();
}

bool Engine::runs_eagerly(PyObject* function) {
  if (!function || !PyFunction_Check(function)) return false;
  const CodeMark* mark = code_mark(PyFunction_GET_CODE(function));
  return mark && *mark == CodeMark::kEager;
}

namespace {

constexpr CodeMark kMarks[] = {CodeMark::kUser, CodeMark::kSkipped,  CodeMark::kEager,
                               CodeMark::kTwin, CodeMark::kUnhooked, CodeMark::kGivenUp};
void keep_mark(void*) {}

}  // namespace

void set_code_mark(PyObject* code, CodeMark mark) {
  auto* state = const_cast<CodeMark*>(&kMarks[static_cast<size_t>(mark)]);
  if (framejit_code_state_set(reinterpret_cast<PyCodeObject*>(code), state, &keep_mark) < 0) PyErr_Clear();
}

const CodeMark* code_mark(PyObject* code) {
  return static_cast<const CodeMark*>(framejit_code_state_get(reinterpret_cast<PyCodeObject*>(code)));
}

}  // namespace framejit::runtime
