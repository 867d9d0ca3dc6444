#include <ATen/ATen.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/train/optim/rules.h"
#include "core/model/dtype.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {
namespace {

float* numbers(const at::Tensor& tensor) { return tensor.data_ptr<float>(); }

// Returns a rule's arguments with the members set that all rules have.
template <class Args>
Args common(const UpdateStep& step, const UpdateStretch& s) {
  Args args{.count = s.weight.numel(), .weight = numbers(s.weight), .grad = numbers(s.grad)};
  if (s.copy.defined()) {
    args.copy_type = element_of(s.copy.scalar_type());
    args.copy = s.copy.data_ptr();
  }
  args.verdict = step.device_verdict;
  args.numbers = step.numbers;
  args.ranges = s.ranges;
  return args;
}

void update(ComputeDevice& device, const AdamW& rule, const UpdateStep& step, const UpdateStretch& s) {
  auto args = common<AdamWUpdate>(step, s);
  args.mean = numbers(s.state[0]), args.square = numbers(s.state[1]);
  args.beta1 = rule.beta1, args.beta2 = rule.beta2, args.eps = rule.eps;
  device.run(args);
}

void update(ComputeDevice& device, const AdamW8bit& rule, const UpdateStep& step, const UpdateStretch& s) {
  if (s.kind == StateKind::plain) return update(device, static_cast<const AdamW&>(rule), step, s);
  auto args = common<AdamW8bitUpdate>(step, s);
  args.mean = s.state[0].data_ptr<uint8_t>(), args.square = s.state[1].data_ptr<uint8_t>();
  args.mean_absmax = numbers(s.state[2]), args.square_absmax = numbers(s.state[3]);
  args.signed_map = step.signed_map, args.unsigned_map = step.unsigned_map;
  args.beta1 = rule.beta1, args.beta2 = rule.beta2, args.eps = rule.eps;
  device.run(args);
}

void update(ComputeDevice& device, const Lion& rule, const UpdateStep& step, const UpdateStretch& s) {
  auto args = common<LionUpdate>(step, s);
  args.mean = numbers(s.state[0]);
  args.beta1 = rule.beta1, args.beta2 = rule.beta2;
  device.run(args);
}

void update(ComputeDevice& device, const Muon& rule, const UpdateStep& step, const UpdateStretch& s) {
  if (s.kind == StateKind::plain) return update(device, rule.other, step, s);
  update_composed(rule, step, s);
}

// Rules without a kernel: one pass of ATen for each of their operations.
template <class Rule>
void update(ComputeDevice&, const Rule& rule, const UpdateStep& step, const UpdateStretch& s) { update_composed(rule, step, s); }

void update_fp32(ComputeDevice& device, const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch) {
  std::visit([&](const auto& r) { update(device, r, step, stretch); }, rule);
}

// Returns `count` elements from `begin` on, with the settings of range i.
UpdateStretch part_of(const UpdateStretch& s, size_t i, int64_t begin, int64_t count) {
  UpdateStretch part{s.weight.narrow(0, begin, count), s.grad.narrow(0, begin, count), {}, {}, s.kind};
  for (const at::Tensor& state : s.state) {
    const int64_t block = s.weight.numel() / state.numel();
    part.state.push_back(state.narrow(0, begin / block, count / block));
  }
  part.ends = {count}, part.rate_factors = {s.rate_factors[i]}, part.decays = {s.decays[i]};
  part.ranges = {part.ends.data(), part.rate_factors.data(), part.decays.data()};
  return part;
}

}  // namespace

void update_by_kernels(ComputeDevice& device, const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch) {
  if (stretch.weight.scalar_type() == at::kFloat) return update_fp32(device, rule, step, stretch);
  // A matrix is not cut into chunks.
  if (device.separate() || stretch.kind == StateKind::matrix || by_parameter(rule)) return update_composed(rule, step, stretch);
  FORGE_CHECK(!stretch.copy.defined(), "weights without masters have no copy");
  const at::Tensor wide = at::empty({std::min(kUpdateChunk, stretch.weight.numel())}, at::kFloat);
  int64_t begin = 0;
  for (size_t i = 0; i < stretch.ends.size(); ++i)
    for (int64_t end = stretch.ends[i]; begin < end;) {
      const int64_t count = std::min(kUpdateChunk, end - begin);
      UpdateStretch part = part_of(stretch, i, begin, count);
      part.copy = part.weight;
      part.weight = wide.narrow(0, 0, count).copy_(part.copy);
      update_fp32(device, rule, step, part);
      begin += count;
    }
}

}  // namespace forge
