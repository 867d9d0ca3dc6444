#include "providers/fused/workspace.h"

#include <algorithm>

#include "core/model/graph/fold_gates.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_tiles.h"
#include "kernels/device/cpu_product.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/lm_head/lm_head_cuda.h"
#include "kernels/lm_head/lm_head_scratch.h"
#include "kernels/lm_head/lm_head_space.h"
#include "kernels/lora/gated_space.h"
#include "kernels/lora/lora_cuda_space.h"
#include "kernels/lora/lora_space.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/optimizer/optimizer_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "providers/aten/aten_plan.h"
#include "providers/fused/bind.h"
#include "providers/fused/planned_call.h"

namespace forge {

int64_t lora_workspace(const Call& c, const LoraGroup& group, bool backward) {
  return c.m.capacity.gpu ? lora_cuda_space(group, backward, nullptr).bytes
                          : lora_space(group, backward, nullptr, c.m.capacity.threads).bytes;
}

namespace {

int64_t adapters(const Call& c) {
  int64_t most = 0;
  if (!c.op.attributes.folded)
    bind::each_adapter(c, [&](size_t i, size_t adapter) {
      most = std::max(most, c.op.kind == OpKind::adapter_gradient
                                ? lora_workspace(c, bind::lora_backward(c, i, adapter).group, true)
                                : lora_workspace(c, bind::lora_forward(c, i, adapter).group, false));
    });
  return most;
}

int64_t linear(const Call& c) {
  if (c.m.capacity.gpu && c.op.attributes.accumulate) {
    const Part x = whole(c, c.in(0)), y = whole(c, c.out(0));
    return device_gemm_workspace(bind::plus(bind::product(c, c.tokens(), y, x, {.rows = y.width}, false),
                                            bind::added(c), c.workspace));
  }
  return std::max(adapters(c), bind::fp8_space(c).bytes);
}

// Returns the workspace of the largest of a CPU's products.
int64_t products(const std::vector<Gemm>& products) {
  int64_t most = 0;
  for (const Gemm& product : products) most = std::max(most, product_cpu_workspace(product));
  return most;
}

int64_t expert_weight_gradient(const Call& c) {
  const int64_t rows = c.tokens() * c.op.attributes.route.per_token;  // one expert may get every row
  std::vector<Gemm> all;
  for (size_t i = 0; i < c.op.modules.size(); ++i)
    if (float* gradient = c.module(i).d_weight) {
      const auto of = [&](ValueId id) { return bind::range_of(c, bind::expert_rows(c, id), {i, 0, rows}); };
      all.push_back(bind::weight_gradient(c, rows, gradient, of(c.in(0)), of(c.in(1))));
    }
  return products(all);
}

int64_t dora_ratio(const Call& c) {
  int64_t most = 0;
  bind::each_adapter(c, [&](size_t i, size_t) {
    most = std::max(most, dora_ratio_cpu_workspace(bind::dora_ratio(c, i, nullptr, nullptr, nullptr)));
  });
  return most;
}

// Returns the workspace of products that one kernel computes; a library's products need none.
template <class Args>
int64_t thin(const Args& args) {
  return *thin_refusal(args) ? 0 : 4 * thin_cut(args).numbers;
}

// Returns the workspace of the ops that a folded gate stands for.
int64_t parts(const Call& c) {
  int64_t most = 0;
  for (const Op& part : gate_parts(c.op))
    most = std::max(most, fused_workspace(c.m.graph, part, c.m.capacity));
  return most;
}
template <class Args>
int64_t gated(const Call& c, const Args& args) {
  return *gated_refusal(args) ? parts(c) : 4 * gated_numbers(args);
}

int64_t head(const Call& c) {
  const StepSizes& sizes = c.m.capacity;
  const ModuleUse& head = c.use();
  if (!c.op.attributes.fused_head)
    return head_scratch_bytes(std::min(kHeadChunk, sizes.targets), head.out, c.bytes(),
                              c.op.attributes.softcap != 0, sizes.gpu);
  const LmHead args{.type = c.type(), .positions = sizes.targets, .width = head.in, .vocab = head.out};
  const int64_t bytes =
      sizes.gpu ? lm_head_cuda_workspace(args) : head_space(args, nullptr, sizes.threads).bytes;
  // The sum includes 64 B of alignment, and the loss and weight of each position.
  return bytes + 64 + 8 * sizes.targets;
}

int64_t on_gpu(const Call& c) {
  switch (c.op.kind) {
    case OpKind::adapter_sums:
      return thin(bind::adapter_sums(c));
    case OpKind::adapter_sums_gradient:
      return thin(bind::adapter_sums_gradient(c));
    case OpKind::glu_sums:
      return gated(c, bind::glu_sums(c));
    case OpKind::glu_adapters_backward:
      return gated(c, bind::glu_adapters_backward(c));
    case OpKind::gradient_norm:
      return gradient_norm_cuda_workspace({.count = c.op.attributes.elements});
    case OpKind::attention_backward:
      return attention_backward_cuda_workspace(bind::attention_backward(c));
    case OpKind::norm_backward:
      return rms_norm_backward_cuda_workspace(bind::norm_backward(c));
    case OpKind::layer_norm_backward:
      return layer_norm_backward_cuda_workspace(bind::layer_norm_backward(c));
    default:
      return 0;
  }
}

int64_t on_cpu(const Call& c) {
  switch (c.op.kind) {
    case OpKind::expert_weight_gradient:
      return expert_weight_gradient(c);
    case OpKind::linear_weight_gradient:
      return products(bind::linear_weight_gradient(c));
    case OpKind::adapter_sums_gradient:
      return products(bind::adapter_sums_gradient_products(c));
    case OpKind::adapter_input_gradient:
      return products(bind::adapter_input_gradient(c));
    case OpKind::glu_sums:
    case OpKind::glu_adapters_backward:
      return parts(c);
    case OpKind::dora_ratio:
      return dora_ratio(c);
    case OpKind::attention:
      return attention_tiles_workspace(bind::attention(c).shape, c.m.capacity.threads);
    case OpKind::attention_backward:
      return attention_tiles_workspace(bind::attention_backward(c).shape, c.m.capacity.threads);
    case OpKind::gradient_norm:
      return gradient_norm_cpu_workspace({.count = c.op.attributes.elements});
    default:
      return 0;
  }
}

int64_t workspace_of(const Call& c) {
  switch (c.op.kind) {
    case OpKind::linear:
      return linear(c);
    case OpKind::linear_input_gradient:
      return bind::fp8_space(c).bytes;
    case OpKind::adapter_gradient:
      return adapters(c);
    case OpKind::expert_linear:
    case OpKind::expert_adapter_gradient:
      return bind::expert_space(c).bytes;
    case OpKind::head:
    case OpKind::evaluate:
      return head(c);
    default:
      return c.m.capacity.gpu ? on_gpu(c) : on_cpu(c);
  }
}

}  // namespace

int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes) {
  if (!aten_reason(graph, op, sizes).empty()) return 0;
  return workspace_of(PlannedCall(graph, op, sizes));
}

}  // namespace forge
