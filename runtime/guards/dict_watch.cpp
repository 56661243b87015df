#include "runtime/guards/dict_watch.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "eval_frame/watch.h"

namespace framejit::runtime {
namespace {

using State = WatchFlag::State;

void let_go(State* state) {
  if (--state->holders == 0) delete state;
}

class Registry {
 public:
  bool add(PyObject* dict, State* flag) {
    if (!started_) start();
    if (watcher_ < 0) return false;
    unwatch_idle();
    auto [at, is_new] = rows_.try_emplace(dict);
    Row& row = at->second;
    if (is_new && !framejit_dict_watch(watcher_, dict)) {
      rows_.erase(at);
      return false;
    }
    if (!row.flags.empty() && row.flags.back() == flag) return true;
    if (row.flags.size() >= row.limit) drop_orphans(row);
    row.flags.push_back(flag);
    ++flag->holders;
    return true;
  }

 private:
  struct Row {
    std::vector<State*> flags;
    size_t limit = 8;  // of flags, before those that nobody looks at are dropped
  };

  void start() {
    started_ = true;
    watcher_ = framejit_dict_watcher_add([](PyObject* dict, int gone) { registry().changed(dict, gone != 0); });
  }

  // Runs inside of the interpreter's change: touches no object.
  void changed(PyObject* dict, bool gone) {
    auto at = rows_.find(dict);
    if (at == rows_.end()) return;
    for (State* flag : at->second.flags) {
      if (!flag->raised_by) flag->raised_by = dict;
      let_go(flag);
    }
    if (gone) {
      rows_.erase(at);
    } else {
      if (!at->second.flags.empty()) idle_.push_back(dict);
      at->second.flags.clear();
    }
  }

  // A dictionary with a row is alive: its end removes the row.
  void unwatch_idle() {
    for (PyObject* dict : idle_) {
      auto at = rows_.find(dict);
      if (at == rows_.end() || !at->second.flags.empty()) continue;
      framejit_dict_unwatch(watcher_, dict);
      rows_.erase(at);
    }
    idle_.clear();
  }

  static void drop_orphans(Row& row) {
    auto orphan = [](State* flag) {
      if (flag->owned) return false;
      let_go(flag);
      return true;
    };
    row.flags.erase(std::remove_if(row.flags.begin(), row.flags.end(), orphan), row.flags.end());
    row.limit = std::max<size_t>(8, 2 * row.flags.size());
  }

  static Registry& registry();
  friend bool framejit::runtime::WatchFlag::put_on(PyObject* dict);

  std::unordered_map<PyObject*, Row> rows_;
  std::vector<PyObject*> idle_;
  int watcher_ = -1;
  bool started_ = false;
};

// Never destroyed: dictionaries die until the process ends.
Registry& Registry::registry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

bool WatchFlag::put_on(PyObject* dict) { return Registry::registry().add(dict, state_); }

void WatchFlag::drop(State* state) {
  state->owned = false;
  let_go(state);
}

}  // namespace framejit::runtime
