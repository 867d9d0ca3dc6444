#include "core/train/fused_head.h"

#include <ATen/ATen.h>

#include "core/model/element.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lm_head/lm_head_space.h"

namespace forge {
namespace {

LmHead head_args(const FusedHead& head, const HeadRows& rows, const at::Tensor& targets) {
  return {.type = element_of(rows.rows.scalar_type()),
          .positions = rows.rows.size(0),
          .width = rows.rows.size(1),
          .vocab = head.weight.size(0),
          .hidden = rows.rows.data_ptr(),
          .hidden_stride = rows.rows.stride(0),
          .weight = head.weight.data_ptr(),
          .weight_stride = head.weight.stride(0),
          .targets = targets.const_data_ptr<int64_t>(),
          .softcap = static_cast<float>(head.softcap),
          .workspace = rows.scratch.data_ptr()};
}

}  // namespace

double fused_head_backward(const FusedHead& head, const HeadRows& rows, const at::Tensor& targets, const at::Tensor& weights,
                           const ObjectiveConfig& objective, double scale, const at::Tensor& weight_grad) {
  const int64_t positions = rows.rows.size(0);
  if (positions == 0) return 0;
  LmHead args = head_args(head, rows, targets);
  args.label_smoothing = static_cast<float>(objective.label_smoothing);
  args.z_loss = static_cast<float>(objective.z_loss);
  args.d_hidden = rows.d_rows.data_ptr();
  args.d_hidden_stride = rows.d_rows.stride(0);
  if (weight_grad.defined()) args.d_weight = weight_grad.data_ptr<float>();
  // Behind the kernel's own workspace.
  auto* loss = reinterpret_cast<float*>(rows.scratch.data_ptr<uint8_t>() + rows.scratch.numel()) - 2 * positions;
  float* scaled = loss + positions;
  const float* w = weights.const_data_ptr<float>();
  for (int64_t i = 0; i < positions; ++i) scaled[i] = static_cast<float>(w[i] * scale);
  args.loss = loss;
  args.loss_weight = scaled;
  lm_head_cpu(args);
  double sum = 0;
  for (int64_t i = 0; i < positions; ++i) sum += static_cast<double>(loss[i]) * static_cast<double>(w[i]);
  return sum;
}

at::Tensor fused_head_logp(const FusedHead& head, const HeadRows& rows, const at::Tensor& targets) {
  if (rows.rows.size(0) == 0) return {};
  LmHead args = head_args(head, rows, targets);
  at::Tensor logp = at::empty({args.positions}, at::kFloat);
  args.logp = logp.data_ptr<float>();
  lm_head_cpu(args);
  return logp;
}

}  // namespace forge
