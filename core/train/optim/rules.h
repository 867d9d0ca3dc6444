#pragma once
// The update rules and their parameters beside the gradient. kernels/optimizer/optimizer_args.h has
// their formulas.
#include <ATen/core/Tensor.h>

#include <variant>
#include <vector>

#include "core/job/job.h"
#include "core/model/families/trained_layout.h"
#include "kernels/device/device.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {

struct AdamW {
  double beta1, beta2, eps;
};
struct AdamW8bit : AdamW {};
struct Lion {
  double beta1, beta2;
};
struct Sgd {
  double momentum;
};
struct Adafactor {};
struct Muon {
  double momentum;
  AdamW other;  // for parameters that are not hidden matrices
};
struct ScheduleFree {
  double beta1, beta2, eps;
};
using OptimizerRule = std::variant<AdamW, AdamW8bit, Lion, Sgd, Adafactor, Muon, ScheduleFree>;

OptimizerRule rule_of(const OptimizerConfig& config);
// Returns the numbers of an update that the kernels of a rule read.
UpdateNumbers numbers_of(const OptimizerRule& rule, double learning_rate, int64_t number);
// True if each parameter is updated by itself, rather than neighbours together.
bool by_parameter(const OptimizerRule& rule);

// Neighbouring parameters with state of one kind: a contiguous part of every flat buffer.
struct UpdateStretch {
  at::Tensor weight;              // fp32 or, without masters, the compute type
  at::Tensor grad;                // fp32
  at::Tensor copy;                // in the compute type; or undefined
  std::vector<at::Tensor> state;  // in the order of the layout's parts
  StateKind kind = StateKind::plain;
  // For a matrix, or a vector that is updated by itself: its elements and shape. The elements after
  // these are padding.
  int64_t elements = 0, rows = 0, columns = 0;
  // Ranges of neighbours with the same settings: the end of each in the stretch, the factor of its
  // learning rate, and its decay.
  std::vector<int64_t> ends;
  std::vector<float> rate_factors, decays;
  UpdateRanges ranges;  // these three arrays, where the device reads them
};

struct UpdateStep {
  double learning_rate = 0;
  const UpdateNumbers* numbers = nullptr;  // the step's numbers, where the device reads them
  int64_t number = 1;              // the number of the update, from 1
  const float* verdict = nullptr;  // norm, scale, finite: where the host reads them
  const float* device_verdict = nullptr;
  // Values of state_map(), where the device reads them.
  const float *signed_map = nullptr, *unsigned_map = nullptr;
  double average_share = 0;  // schedule_free: share of the newest point in the average of all
};

// Does the update with ATen operations, on any device. The kernels are compared with it.
void update_composed(const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);
// Does the update with the device's kernels.
void update_by_kernels(ComputeDevice& device, const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch);

}  // namespace forge
