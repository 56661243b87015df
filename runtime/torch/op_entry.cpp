#include "runtime/torch/op_entry.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <sstream>
#include <unordered_map>

namespace framejit::torchlib {
namespace {

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_tensor_type(const c10::Type& type) { return type.kind() == c10::TypeKind::TensorType; }

ArgKind kind_of(c10::TypePtr type) {
  const bool optional = type->kind() == c10::TypeKind::OptionalType;
  if (optional) type = type->castRaw<c10::OptionalType>()->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return optional ? ArgKind::kOptionalTensor : ArgKind::kTensor;
    case c10::TypeKind::ListType: {
      c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      if (is_tensor_type(*element)) return ArgKind::kTensorList;
      if (element->kind() == c10::TypeKind::OptionalType &&
          is_tensor_type(*element->castRaw<c10::OptionalType>()->getElementType()))
        return ArgKind::kOptionalTensorList;
      if (element->kind() == c10::TypeKind::OptionalType &&
          element->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::NumberType)
        return ArgKind::kOptionalScalars;
      return ArgKind::kOther;
    }
    case c10::TypeKind::ScalarTypeType:
      return ArgKind::kDType;
    case c10::TypeKind::LayoutType:
      return ArgKind::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return ArgKind::kMemoryFormat;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgKind::kInt;
    default:
      return ArgKind::kOther;
  }
}

bool is_device(c10::TypePtr type) {
  if (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  return type->kind() == c10::TypeKind::DeviceObjType;
}

std::string schema_text(const c10::FunctionSchema& schema) {
  std::ostringstream text;
  text << schema;
  return text.str();
}

// LibTorch's own, for weights in a layout of oneDNN's.
bool is_of_mkldnn(std::string_view name) { return name.starts_with("mkldnn::"); }
bool is_custom(const c10::OperatorName& name) { return name.name.rfind("aten::", 0) != 0 && !is_of_mkldnn(name.name); }

uint32_t flags_of(const c10::OperatorHandle& handle) {
  uint32_t flags = is_custom(handle.operator_name()) ? uint32_t{graph::kOpSideEffect} : 0;
  for (at::Tag tag : handle.getTags()) {
    if (tag == at::Tag::nondeterministic_seeded) flags |= graph::kOpRandom;
    if (tag == at::Tag::data_dependent_output || tag == at::Tag::dynamic_output_shape) flags |= graph::kOpDataDependent;
    if (tag == at::Tag::pointwise) flags |= graph::kOpPointwise;
  }
  return flags;
}

graph::OpId id_of(const c10::OperatorHandle& handle) {
  std::string name = full_name(handle.operator_name());
  graph::OpId id = graph::find_op(name);
  return id.valid() ? id : graph::intern_op(name, schema_text(handle.schema()), flags_of(handle));
}

bool is_special(std::string_view name) {
  for (std::string_view known :
       {"aten::lift_fresh", "aten::lift", "aten::detach", "aten::is_same_size", "aten::set_data", "aten::record_stream",
        "aten::resize_", "aten::resize_as_", "aten::set_", "aten::is_pinned", "aten::_pin_memory", "aten::_to_copy",
        "aten::as_strided", "aten::as_strided_", "aten::as_strided_copy"})
    if (name == known) return true;
  return name.rfind("aten::set_.", 0) == 0;
}

bool gives_special_kind(std::string_view name) {
  auto has = [&](const char* part) { return name.find(part) != std::string_view::npos; };
  return has("sparse") || has("nested") || (has("quantize") && !has("fake_quant")) || has("to_mkldnn") ||
         has("mkldnn_reorder");
}

ReturnFact return_fact(const c10::FunctionSchema& schema, const c10::Argument& result) {
  ReturnFact fact;
  ArgKind kind = kind_of(result.real_type());
  fact.is_tensor = kind == ArgKind::kTensor;
  fact.is_tensor_list = kind == ArgKind::kTensorList;
  const c10::AliasInfo* alias = result.alias_info();
  if (!alias) return fact;
  if (fact.is_tensor_list && !alias->containedTypes().empty()) alias = &alias->containedTypes()[0];  // Tensor(a)[]
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* other = schema.arguments()[i].alias_info();
    if (!other || other->beforeSets() != alias->beforeSets()) continue;
    fact.alias_arg = static_cast<int16_t>(i);
    fact.is_same = alias->isWrite();
    break;
  }
  return fact;
}

// The dispatcher's autograd kernels leave ADInplaceOrView on below them for in-place operators only
// (tools/autograd/gen_variable_type.py in PyTorch).
WriteCount write_count_of(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView)) return WriteCount::kDispatcher;
  const bool in_place = op.operator_name().name.ends_with('_');
  return in_place || !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) ? WriteCount::kKernel
                                                                             : WriteCount::kNobody;
}

}  // namespace

OpEntry::OpEntry(const c10::OperatorHandle& op) : handle(op), id(id_of(op)), info(&graph::op_info(id)) {
  const c10::FunctionSchema& schema = op.schema();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& arg = schema.arguments()[i];
    args.push_back(kind_of(arg.real_type()));
    if (arg.alias_info() && arg.alias_info()->isWrite()) written_args.push_back(static_cast<uint16_t>(i));
    if (is_device(arg.real_type())) device_arg = static_cast<int16_t>(i);
    if (arg.name() == "layout") layout_arg = static_cast<int16_t>(i);
  }
  if (!written_args.empty()) write_count = write_count_of(op);
  own_kernel = find_own_kernel(info->name);
  for (const c10::Argument& result : schema.returns()) {
    returns.push_back(return_fact(schema, result));
    // Its schema says alias, but the executor gives each call a tensor of its own where that can be seen.
    if (info->name == "aten::lift_fresh" || info->name == "aten.lift_fresh") returns.back().alias_arg = -1;
    const ReturnFact& fact = returns.back();
    plain_results |= !fact.is_tensor && !fact.is_tensor_list;
    is_view |= fact.alias_arg >= 0 && !fact.is_same;
  }
  answers = plain_results && std::none_of(returns.begin(), returns.end(),
                                          [](const ReturnFact& fact) { return fact.is_tensor || fact.is_tensor_list; });
  native = info->has(graph::kOpNative);
  // Some backward operators have both: their composite kernel is for other devices.
  composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
              !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  needs_data = (flags_of(op) & graph::kOpDataDependent) != 0;
  gives_special = is_of_mkldnn(info->name) || (info->name.starts_with("aten::") && gives_special_kind(info->name));
  unsafe_view = info->name.starts_with("aten::_unsafe_view") || info->name.starts_with("aten::unsafe_");
  special = is_special(info->name) || gives_special || (info->name.starts_with("aten::") && layout_arg >= 0);
  custom = is_custom(op.operator_name());
}

const char* why_not_composite(const OpEntry& op) {
  const bool takes_tensors =
      std::any_of(op.args.begin(), op.args.end(), [](ArgKind kind) { return kind <= ArgKind::kOptionalTensorList; });
  if (!op.composite || !op.custom) return nullptr;
  if (op.plain_results) return "is a composite that returns what is no tensor";
  if (op.returns.empty() && op.written_args.empty()) return "is a composite without a result";
  return takes_tensors ? nullptr : "is a composite that takes no tensor";
}

const char* why_not_custom(const OpEntry& op) {
  if (!op.handle.hasSchema() || op.info->schema != schema_text(op.handle.schema())) return "is registered anew";
  if (op.composite) return nullptr;  // of LibTorch's operators, or of others that are asked in their turn
  if (!op.handle.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return "has no Meta kernel";
  if (op.plain_results) return "returns what is no tensor";
  if (op.is_view) return "returns a view";
  return nullptr;
}

namespace {

struct Table {
  std::mutex mutex;
  std::deque<OpEntry> entries;
  std::unordered_map<const void*, const OpEntry*> by_handle;
  std::unordered_map<uint32_t, const OpEntry*> by_id;
};

Table& table() {
  static Table* instance = new Table;
  return *instance;
}

}  // namespace

const OpEntry& op_entry(const c10::OperatorHandle& handle) {
  // The name lives in the dispatcher's own entry, so its address stands for the operator.
  const void* key = &handle.operator_name();
  static thread_local std::unordered_map<const void*, const OpEntry*> cache;
  auto found = cache.find(key);
  if (found != cache.end()) return *found->second;
  Table& shared = table();
  std::lock_guard<std::mutex> lock(shared.mutex);
  const OpEntry*& entry = shared.by_handle[key];
  if (!entry) {
    entry = &shared.entries.emplace_back(handle);
    // The dispatcher's entry outlives the library that defined the operator: graphs have it by its address.
    if (entry->custom)
      new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerName(handle.operator_name()));
    shared.by_id.emplace(entry->id.value, entry);
  }
  cache.emplace(key, entry);
  return *entry;
}

const OpEntry* op_entry_by_id(graph::OpId op) {
  {
    Table& shared = table();
    std::lock_guard<std::mutex> lock(shared.mutex);
    auto found = shared.by_id.find(op.value);
    if (found != shared.by_id.end()) return found->second;
  }
  return op_entry_by_name(graph::op_name(op));
}

const OpEntry* op_entry_by_name(std::string_view full) {
  const std::string name(full);
  size_t dot = name.find('.', name.find("::") == std::string::npos ? 0 : name.find("::"));
  std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  auto handle =
      c10::Dispatcher::singleton().findSchema({dot == std::string::npos ? name : name.substr(0, dot), overload});
  return handle ? &op_entry(*handle) : nullptr;
}

}  // namespace framejit::torchlib
