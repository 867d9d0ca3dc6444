#include "core/train/fused_head.h"

#include <ATen/ATen.h>

#include "core/model/element.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

LmHead head_args(const FusedHead& head, const HeadRows& rows) {
  return {.type = element_of(rows.rows.scalar_type()),
          .positions = rows.rows.size(0),
          .width = rows.rows.size(1),
          .vocab = head.weight.size(0),
          .hidden = rows.rows.data_ptr(),
          .hidden_stride = rows.rows.stride(0),
          .weight = head.weight.data_ptr(),
          .weight_stride = head.weight.stride(0),
          .targets = rows.targets,
          .softcap = static_cast<float>(head.softcap),
          .workspace = rows.scratch.data_ptr()};
}

}  // namespace

std::function<double()> fused_head_backward(const FusedHead& head, const HeadRows& rows, const std::vector<float>& weights,
                                          const ObjectiveConfig& objective, double scale, const at::Tensor& weight_grad,
                                          Captures<LmHead>& captures) {
  const int64_t positions = rows.rows.size(0);
  if (positions == 0) return [] { return 0.0; };
  ComputeDevice& device = device_of(rows.rows.device());
  LmHead args = head_args(head, rows);
  args.label_smoothing = static_cast<float>(objective.label_smoothing);
  args.z_loss = static_cast<float>(objective.z_loss);
  args.d_hidden = rows.d_rows.data_ptr();
  args.d_hidden_stride = rows.d_rows.stride(0);
  if (weight_grad.defined()) args.d_weight = weight_grad.data_ptr<float>();
  // After the kernel's own workspace.
  auto* loss = reinterpret_cast<float*>(rows.scratch.data_ptr<uint8_t>() + rows.scratch.numel()) - 2 * positions;
  float* loss_weight = loss + positions;
  std::vector<float> numbers(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) numbers[i] = static_cast<float>(weights[i] * scale);
  const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(float));
  device.write(loss_weight, numbers.data(), bytes);
  args.loss = loss;
  args.loss_weight = loss_weight;
  captures.run(device, args, [&] { device.run(args); });
  return [weights, losses = device.fetch(loss, bytes)] {
    std::vector<float> numbers(weights.size());
    losses->take(numbers.data());
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += static_cast<double>(numbers[i]) * static_cast<double>(weights[i]);
    return sum;
  };
}

at::Tensor fused_head_logp(const FusedHead& head, const HeadRows& rows) {
  if (rows.rows.size(0) == 0) return {};
  LmHead args = head_args(head, rows);
  at::Tensor logp = at::empty({args.positions}, rows.rows.options().dtype(at::kFloat));
  args.logp = logp.data_ptr<float>();
  device_of(rows.rows.device()).run(args);
  return logp;
}

}  // namespace forge
