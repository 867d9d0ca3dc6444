#pragma once
// The update rules and what each needs beside the gradient. kernels/optimizer/optimizer_args.h has their formulas.
#include <ATen/core/Tensor.h>

#include <variant>
#include <vector>

#include "core/config/job.h"
#include "core/families/trained_layout.h"
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
struct Adafactor {};
struct Muon {
  double momentum;
  AdamW other;  // of what is no hidden matrix
};
struct ScheduleFree {
  double beta1, beta2, eps;
};
using OptimizerRule = std::variant<AdamW, AdamW8bit, Lion, Sgd, Adafactor, Muon, ScheduleFree>;

OptimizerRule rule_of(const OptimizerConfig& config);
// What the kernels of a rule read of an update.
UpdateNumbers numbers_of(const OptimizerRule& rule, double learning_rate, int64_t number);
// Whether every parameter is updated by itself, rather than neighbours together.
bool by_parameter(const OptimizerRule& rule);

// Neighbouring parameters with state of one kind: a stretch of every flat buffer.
struct UpdateStretch {
  at::Tensor weight;              // fp32 or, without masters, the compute type
  at::Tensor grad;                // fp32
  at::Tensor copy;                // in the compute type; or undefined
  std::vector<at::Tensor> state;  // in the order of the layout's parts
  StateKind kind = StateKind::plain;
  // Of a matrix, or of a vector that is updated by itself; what lies behind its elements is padding.
  int64_t elements = 0, rows = 0, columns = 0;
  // Neighbours with the same settings: where each ends in the stretch, what multiplies the rate, and its decay.
  std::vector<int64_t> ends;
  std::vector<float> rate_factors, decays;
  UpdateRanges ranges;  // the same where the device reads them
};

struct UpdateStep {
  double learning_rate = 0;
  const UpdateNumbers* numbers = nullptr;  // of it, where the device reads them
  int64_t number = 1;              // of updates, from 1
  const float* verdict = nullptr;  // norm, scale, finite: where the host reads them
  const float* device_verdict = nullptr;
  const float *signed_map = nullptr, *unsigned_map = nullptr;  // state_map's, where the device reads them
  double average_share = 0;  // schedule_free: of the newest point in the average of all
};

// Composed of ATen, on any device; what the kernels are compared with.
void update_composed(const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);
// By the device's kernels.
void update_by_kernels(ComputeDevice& device, const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);

}  // namespace forge
