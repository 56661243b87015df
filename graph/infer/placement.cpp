#include "graph/infer/placement.h"

#include <algorithm>

#include "graph/graph.h"

namespace framejit::graph {
namespace {

// f(meta, index of the operand), for each tensor; scalars in a tensor's place are numbers of no device.
template <class F>
void for_each_tensor(std::span<const Operand> operands, const MetaLookup& metas, F&& f) {
  for (size_t i = 0; i < operands.size(); ++i)
    for_each_value(operands[i], [&](ValueId id) {
      const TensorMeta& meta = metas(id);
      if (meta.defined()) f(meta, i);
    });
}

// One tensor of rank 0 on the CPU beside others that share a device, and not the one that is written: what
// TensorIterator takes with allow_cpu_scalars.
bool has_one_cpu_scalar(uint32_t flags, std::span<const Operand> operands, const MetaLookup& metas) {
  std::optional<Device> device;
  int scalars = 0;
  bool fits = true;
  for_each_tensor(operands, metas, [&](const TensorMeta& meta, size_t i) {
    if (meta.device.is_cpu()) {
      ++scalars;
      fits &= meta.dim() == 0 && !(i == 0 && (flags & kOpMutates));
      return;
    }
    fits &= !device || *device == meta.device;
    device = meta.device;
  });
  return fits && scalars == 1 && device;
}

// Indices, the list in place 1, may lie on the CPU. All else goes with the first tensor.
bool has_cpu_indices(std::span<const Operand> operands, const MetaLookup& metas) {
  std::optional<Device> device;
  bool fits = true;
  for_each_tensor(operands, metas, [&](const TensorMeta& meta, size_t i) {
    if (!device) device = meta.device;
    fits &= meta.device == *device || (i == 1 && meta.device.is_cpu());
  });
  return fits;
}

}  // namespace

Placement placement_of(uint32_t flags, std::span<const Operand> operands, const MetaLookup& metas) {
  std::optional<Device> device;
  bool mixed = false;
  for_each_tensor(operands, metas, [&](const TensorMeta& meta, size_t) {
    mixed |= device && *device != meta.device;
    device = meta.device;
  });
  if (!mixed) return !device || device->is_cpu() ? Placement::kCpu : Placement::kOther;
  const bool allowed = (flags & kOpAnyDevices) != 0 ||
                       ((flags & kOpCpuScalar) && has_one_cpu_scalar(flags, operands, metas)) ||
                       ((flags & kOpCpuIndices) && has_cpu_indices(operands, metas));
  return allowed ? Placement::kAllowed : Placement::kMixed;
}

bool rule_holds(uint32_t flags, Placement placement, std::span<const Operand> operands, const MetaLookup& metas) {
  if (placement == Placement::kCpu) return true;
  if (placement == Placement::kMixed || (flags & kOpCpuRule)) return false;
  if (placement == Placement::kAllowed) return true;
  // Of tensors without data the Meta kernel is the kernel itself.
  bool meta = false;
  for_each_tensor(operands, metas, [&](const TensorMeta& tensor, size_t) { meta |= tensor.device.is_meta(); });
  return !meta;
}

std::string placement_text(std::span<const Operand> operands, const MetaLookup& metas) {
  std::vector<std::string> names;
  for_each_tensor(operands, metas, [&](const TensorMeta& meta, size_t) {
    std::string name = to_string(meta.device);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  });
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : " and ") + names[i];
  return text;
}

}  // namespace framejit::graph
