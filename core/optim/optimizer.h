#pragma once
// The update of the flat trainable buffers: clipping by the global norm, then AdamW (Loshchilov & Hutter, 2019) or SGD
// with momentum. State is fp32 and flat like the parameters.
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/model/trainable.h"

namespace forge {

class Optimizer {
 public:
  // `lora_plus_ratio` multiplies the learning rate of every lora_b.
  Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables);

  // One update with gradients · `grad_scale`; `learning_rate` is the schedule's value; `updates` counts updates from 1.
  void update(double learning_rate, double grad_scale, int64_t updates);

  // Flat state buffers with the names they are saved under: exp_avg and exp_avg_sq, or momentum.
  struct State {
    std::string name;
    at::Tensor flat;
  };
  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }

 private:
  // Neighbouring parameters with the same settings are updated as one range.
  struct Range {
    int64_t begin = 0, end = 0;
    double rate_factor = 1;
    bool decays = false;
  };
  void update_range(const Range& range, double learning_rate, int64_t updates);

  OptimizerConfig config_;
  TrainableSet& trainables_;
  std::vector<Range> ranges_;
  std::vector<State> states_;
};

// ‖gradients‖₂ over all parameters, accumulated in fp64 in a fixed order.
double gradient_norm(const at::Tensor& flat);

}  // namespace forge
