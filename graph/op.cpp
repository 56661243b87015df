#include "graph/op.h"

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "graph/op_table.h"

namespace framejit::graph {
namespace {

// LibTorch 2.15 registers about 5,000 overloads; the bound leaves room for custom operators.
constexpr size_t kMaxOps = 16384;

uint32_t flags_of_schema(const OpSchema& schema) {
  uint32_t flags = 0;
  for (const SchemaArg& arg : schema.args)
    if (arg.written) flags |= kOpMutates;
  for (const SchemaArg& result : schema.returns) {
    if (result.alias_set == 0) continue;
    if (!result.written) flags |= kOpView;
    if (result.written && !schema.args.empty() && schema.args[0].alias_set == result.alias_set) flags |= kOpInPlace;
  }
  return flags;
}

class Registry {
 public:
  Registry() {
    for (uint32_t i = 0; i < kOpRowCount; ++i) {
      names_[i].store(kOpRows[i].name, std::memory_order_relaxed);
      ids_.emplace(kOpRows[i].name, i);
    }
    count_ = kOpRowCount;
  }

  OpId find(std::string_view name) {
    std::lock_guard lock(mutex_);
    auto found = ids_.find(name);
    return found == ids_.end() ? OpId() : OpId(found->second);
  }

  OpId intern(std::string_view name, std::string_view schema, uint32_t flags) {
    std::lock_guard lock(mutex_);
    if (auto found = ids_.find(name); found != ids_.end()) return OpId(found->second);
    FJ_CHECK(count_ < kMaxOps, "expected at most {} operators, got one more: {}", kMaxOps, name);
    uint32_t id = count_++;
    const std::string& kept = texts_.emplace_back(name);
    names_[id].store(kept.c_str(), std::memory_order_release);
    ids_.emplace(kept, id);
    infos_[id].store(make(OpId(id), kept, schema, flags), std::memory_order_release);
    return OpId(id);
  }

  const OpInfo& info(OpId op) {
    FJ_CHECK(op.index() < kMaxOps, "operator id {} out of range", op.value);
    const OpInfo* known = infos_[op.index()].load(std::memory_order_acquire);
    return known ? *known : load_row(op);
  }

  std::string_view name(OpId op) const {
    const char* text = op.index() < kMaxOps ? names_[op.index()].load(std::memory_order_acquire) : nullptr;
    return text ? text : "?";
  }

  size_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  const OpInfo& load_row(OpId op) {
    std::lock_guard lock(mutex_);
    if (const OpInfo* known = infos_[op.index()].load(std::memory_order_acquire)) return *known;
    FJ_CHECK(op.index() < kOpRowCount, "operator id {} was never interned", op.value);
    const OpRow& row = kOpRows[op.index()];
    const OpInfo* made = make(op, row.name, row.schema, row.flags);
    infos_[op.index()].store(made, std::memory_order_release);
    return *made;
  }

  const OpInfo* make(OpId id, std::string_view name, std::string_view schema, uint32_t flags) {
    OpInfo& info = storage_.emplace_back();
    info.id = id;
    info.name = name;
    info.schema = schema;
    info.flags = flags;
    if (auto parsed = parse_schema(schema)) {
      info.parsed = std::move(*parsed);
      info.flags |= flags_of_schema(info.parsed);
    } else {
      info.flags |= kOpSideEffect;
    }
    return &info;
  }

  std::mutex mutex_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::deque<std::string> texts_;
  std::deque<OpInfo> storage_;
  std::array<std::atomic<const OpInfo*>, kMaxOps> infos_{};
  std::array<std::atomic<const char*>, kMaxOps> names_{};
  uint32_t count_ = 0;
};

// Never destroyed: ids outlive static destruction.
Registry& registry() {
  static Registry* instance = new Registry();
  return *instance;
}

}  // namespace

int OpInfo::aliased_arg(size_t index) const {
  if (parsed.returns.empty()) return -1;
  // One return of list type stands for all results.
  const SchemaArg& result = parsed.returns[parsed.returns.size() == 1 ? 0 : index];
  if (result.alias_set == 0) return -1;
  for (size_t i = 0; i < parsed.args.size(); ++i)
    if (parsed.args[i].alias_set == result.alias_set) return static_cast<int>(i);
  return -1;
}

OpId intern_op(std::string_view name, std::string_view schema, uint32_t flags) {
  return registry().intern(name, schema, flags);
}
OpId find_op(std::string_view name) { return registry().find(name); }
const OpInfo& op_info(OpId op) { return registry().info(op); }
std::string_view op_name(OpId op) { return registry().name(op); }
size_t op_count() { return registry().count(); }

size_t native_op_count() {
  size_t count = 0;
  for (uint32_t i = 0; i < kOpRowCount; ++i) count += kOpRows[i].infer != nullptr;
  return count;
}

}  // namespace framejit::graph
