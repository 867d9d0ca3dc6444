#pragma once
// The update of the flat trainable buffers: the gradients' norm and what it decides, then AdamW, AdamW with 8-bit state, Lion or
// SGD with momentum. State is flat like the parameters (core/families/trained_layout.h).
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "core/config/job.h"
#include "core/model/trainable.h"
#include "core/optim/rules.h"

namespace forge {

// What the gradients of a step come to.
struct GradientVerdict {
  std::array<float, 3> numbers{0, 1, 1};

  float norm() const { return numbers[0]; }          // ‖gradients‖₂ · unscale
  float scale() const { return numbers[1]; }         // what the update multiplies them with: unscale, and the clipping
  bool finite() const { return numbers[2] != 0; }    // none of them is infinite or NaN
};

class Optimizer {
 public:
  // `lora_plus_ratio` multiplies the learning rate of every lora_b.
  Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables);

  // The norm of the gradients times `unscale`, clipped to `max_norm` as torch.nn.utils.clip_grad_norm_ does; ≤ 0: not clipped.
  // The next update obeys it. In a fixed order: threads do not change it. `workspace` has norm_workspace() bytes.
  const GradientVerdict& measure(double unscale, double max_norm, void* workspace);
  int64_t norm_workspace() const;

  // One update; `learning_rate` is the schedule's value; `updates` counts updates from 1.
  void update(double learning_rate, int64_t updates);
  ComputeDevice& device() const { return device_; }

  // Flat buffers, in the order of the layout's parts.
  std::vector<at::Tensor>& states() { return states_; }

 private:
  void place_numbers();
  float* verdict() { return separate_.bytes() > 0 ? separate_.as<float>() : verdict_.numbers.data(); }

  TrainableSet& trainables_;
  ComputeDevice& device_;
  OptimizerRule rule_;
  std::vector<at::Tensor> states_;
  // The flat buffers cut where the kind of state changes; gradients and weights are put in at each update.
  struct Stretch {
    int64_t begin = 0, state_begin = 0;
    UpdateStretch update;
  };
  std::vector<Stretch> stretches_;
  GradientVerdict verdict_;
  const float *signed_map_ = nullptr, *unsigned_map_ = nullptr;
  DeviceBlock separate_;  // the verdict, the maps of 8-bit state and the ranges, where the host's memory is not the device's
};

}  // namespace forge
