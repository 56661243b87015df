#include "runtime/torch/view_step.h"

#include <ATen/TensorSubclassLikeUtils.h>

#include <algorithm>
#include <string_view>

namespace framejit::torchlib {
namespace {

// What makes views of its first argument and changes nothing but sizes, strides and offset. Not as_strided: its offset
// is that of the memory, wherever the argument begins.
bool makes_views(std::string_view op) {
  for (std::string_view known :
       {"aten::view", "aten::_unsafe_view", "aten::expand", "aten::t", "aten::transpose.int", "aten::permute",
        "aten::slice.Tensor", "aten::select.int", "aten::split.Tensor", "aten::split_with_sizes", "aten::unbind.int",
        "aten::unsqueeze", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"})
    if (op == known) return true;
  return false;
}

}  // namespace

std::shared_ptr<const ViewStep> ViewStep::find(const graph::Graph& graph, const graph::Node& node) {
  if (!makes_views(graph::op_info(node.op).name) || !node.arg(0).is_value()) return nullptr;
  const graph::TensorMeta& base = graph.meta(node.arg(0).as_value());
  auto step = std::make_shared<ViewStep>();
  for (size_t i = 0; i < node.result_count; ++i) {
    const graph::ResultMeta& result = graph.value(node.result(i)).result;
    const graph::TensorMeta& meta = result.meta;
    const bool is_view = result.kind == graph::ResultKind::kTensor && result.alias == graph::AliasKind::kView &&
                         result.alias_operand == 0;
    if (!is_view || meta.dtype != base.dtype || meta.layout != graph::Layout::kStrided || base.layout != meta.layout)
      return nullptr;
    step->views_.push_back({{meta.sizes.begin(), meta.sizes.end()},
                            {meta.strides.begin(), meta.strides.end()},
                            meta.storage_offset - base.storage_offset});
  }
  return step;
}

bool ViewStep::serves(const at::Tensor& base) { return base.has_storage() && !at::isTensorSubclassLike(base); }

at::Tensor ViewStep::make(const at::Tensor& base, size_t result) const {
  const View& view = views_[result];
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                             base.key_set(), base.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides, base.storage_offset() + view.offset);
  return made;
}

}  // namespace framejit::torchlib
