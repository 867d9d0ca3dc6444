#pragma once
// The update rules and what each needs beside the gradient. kernels/optimizer/optimizer_args.h has their formulas.
#include <ATen/core/Tensor.h>

#include <variant>
#include <vector>

#include "core/config/job.h"
#include "kernels/device/device.h"

namespace forge {

struct AdamW {
  double beta1, beta2, eps;
};
struct AdamW8bit {
  double beta1, beta2, eps;
};
struct Lion {
  double beta1, beta2;
};
struct Sgd {
  double momentum;
};
using OptimizerRule = std::variant<AdamW, AdamW8bit, Lion, Sgd>;

OptimizerRule rule_of(const OptimizerConfig& config);

// Neighbouring parameters with state of one kind: a stretch of every flat buffer.
struct UpdateStretch {
  at::Tensor weight;              // fp32 or, without masters, the compute type
  at::Tensor grad;                // fp32
  at::Tensor copy;                // in the compute type; or undefined
  std::vector<at::Tensor> state;  // in the order of the layout's parts
  bool coded = false;             // its state is in 8 bits
  // Neighbours with the same settings: where each ends in the stretch, what multiplies the rate, and its decay.
  std::vector<int64_t> ends;
  std::vector<float> rate_factors, decays;
  UpdateRanges ranges;  // the same where the device reads them
};

struct UpdateStep {
  double learning_rate = 0;
  int64_t number = 1;              // of updates, from 1
  const float* verdict = nullptr;  // norm, scale, finite: where the host reads them
  const float* device_verdict = nullptr;
  const float *signed_map = nullptr, *unsigned_map = nullptr;  // state_map's, where the device reads them
};

// Composed of ATen, on any device; what the kernels are compared with.
void update_composed(const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);
// By the device's kernels.
void update_by_kernels(ComputeDevice& device, const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);

}  // namespace forge
