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

void Engine::start(TensorRuntime* tensors) {
  tensors_ = tensors;
  tensor_guards_ = tensors->guards();
}

CodeInfoPtr Engine::code_info(PyObject* code) {
  auto found = infos_.find(code);
  if (found != infos_.end()) return found->second;
  if (infos_.size() >= forget_at_) forget_dropped_code();
  auto info = std::make_shared<const CodeInfo>(bytecode::decode(code));
  infos_.emplace(code, info);
  return info;
}

namespace {

// What was captured of code names it where it goes on after a break.
bool held_by_its_captures_alone(PyObject* code, const std::shared_ptr<CodeCache>& cache) {
  Py_ssize_t holders = 1;  // the decoded code
  for (const auto& [at, segment] : cache->segments())
    for (const auto& entry : segment->entries()) holders += entry->objects().holds(code);
  return Py_REFCNT(code) == holders;
}

template <class Table, class Predicate>
auto take_if(Table& table, Predicate predicate) {
  std::vector<typename Table::mapped_type> taken;
  for (auto it = table.begin(); it != table.end();) {
    const bool take = predicate(it->first, it->second);
    if (take) taken.push_back(it->second);
    it = take ? table.erase(it) : std::next(it);
  }
  return taken;
}

}  // namespace

void Engine::forget_dropped_code() {
  // Freeing code may run Python, which may come back here: the tables are whole before anything goes.
  for (auto& cache : take_if(caches_, held_by_its_captures_alone)) cache->dispose();
  auto infos = take_if(infos_, [](PyObject* code, const CodeInfoPtr& info) {
    return info.use_count() == 1 && info->decoded.use_count() == 1 && Py_REFCNT(code) == 1;
  });
  forget_at_ = std::max<size_t>(1024, 2 * infos_.size());
}

std::shared_ptr<CodeCache> Engine::shared_cache(PyObject* code) {
  auto found = caches_.find(code);
  if (found != caches_.end()) return found->second;
  auto cache = std::make_shared<CodeCache>(code_info(code), nullptr);
  caches_.emplace(code, cache);
  return cache;
}

void Engine::add_owned_cache(const std::shared_ptr<CodeCache>& cache) {
  if (owned_caches_.size() == owned_caches_.capacity())
    owned_caches_.erase(std::remove_if(owned_caches_.begin(), owned_caches_.end(), [](auto& c) { return c.expired(); }),
                        owned_caches_.end());
  owned_caches_.push_back(cache);
}

void Engine::reset() {
  auto caches = std::move(caches_);
  auto infos = std::move(infos_);
  caches_.clear();
  infos_.clear();
  stats = Stats();
  for (auto& [code, cache] : caches) {
    // It was found idle, which is forgotten too.
    if (const CodeMark* mark = code_mark(code); mark && *mark == CodeMark::kSkipped)
      set_code_mark(code, CodeMark::kUser);
    cache->dispose();
  }
  for (auto& owned : std::vector<std::weak_ptr<CodeCache>>(owned_caches_))
    if (auto cache = owned.lock()) cache->dispose();
}

namespace {

bool begins_with_any(PyObject* code, const std::vector<std::string>& prefixes) {
  const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code)->co_filename);
  if (!file) PyErr_Clear();
  const std::string_view name = file ? file : "";
  return name.empty() || std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
           return name.substr(0, prefix.size()) == prefix;
         });
}

}  // namespace

bool Engine::is_standard(PyObject* code) const { return begins_with_any(code, standard_prefixes); }
bool Engine::is_skipped(PyObject* code) const { return is_standard(code) || begins_with_any(code, library_prefixes); }

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

constexpr CodeMark kMarks[] = {CodeMark::kUser, CodeMark::kSkipped, CodeMark::kEager, CodeMark::kTwin};
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
