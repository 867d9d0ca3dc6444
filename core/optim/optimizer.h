#pragma once
// The update of the flat trainable buffers: the gradients' norm and what it decides, then the rule (core/optim/rules.h). State is flat like the parameters (core/families/trained_layout.h).
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "core/config/job.h"
#include "core/model/trainable.h"
#include "core/optim/rules.h"
#include "kernels/device/captures.h"

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

  // Of schedule_free: what decides how much of the average the next point is.
  struct Average {
    double largest_rate = 0, weights = 0;  // weights: Σ largest rate² over the updates
  };
  Average average;

  // Puts the average in the place of the trained weights, where the rule keeps one, and back exactly; they wait where the gradients
  // are, so no step may come between. Without an average they do nothing.
  void show_average();
  void hide_average();
  // Whether the gradients' place holds the trained weights now.
  bool shows_average() const { return hidden_.defined(); }

  // One update; `learning_rate` is the schedule's value; `updates` counts updates from 1.
  void update(double learning_rate, int64_t updates);
  ComputeDevice& device() const { return device_; }

  // Flat buffers, in the order of the layout's parts. The host may read and write them until the next update.
  std::vector<at::Tensor>& states();

 private:
  void place_numbers();
  double note_rate(double rate);
  float* verdict() { return separate_.bytes() > 0 ? separate_.as<float>() : verdict_.numbers.data(); }

  TrainableSet& trainables_;
  ComputeDevice& device_;
  OptimizerRule rule_;
  bool has_kernel_, offloaded_;  // offloaded: the state lies in the host's memory, where the kernel reads and writes it
  std::vector<at::Tensor> states_;
  at::Tensor hidden_;
  // The flat buffers cut where the kind of state changes; gradients and weights are put in at each update.
  struct Stretch {
    int64_t begin = 0, slice = 0;  // the first element, and the first slice by its number
    UpdateStretch update;
  };
  std::vector<Stretch> stretches_;
  // What the device reads of a step, but for the verdict, which it writes.
  struct StepNumbers {
    float unscale = 1;
    UpdateNumbers update;
  };
  const StepNumbers* place(const StepNumbers& numbers);

  GradientVerdict verdict_;
  StepNumbers numbers_;
  Captures<FlatNorm> norm_captures_;
  Captures<std::array<const void*, 3>> update_captures_;  // by the places of weights, gradients and copy
  int64_t numbers_at_ = 0;  // in separate_
  const float *signed_map_ = nullptr, *unsigned_map_ = nullptr;
  DeviceBlock separate_;  // the verdict, the step's numbers, the maps of 8-bit state and the ranges, where the host's memory is not the device's
};

// Shows the average while it lives.
class AverageShown {
 public:
  explicit AverageShown(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.show_average(); }
  ~AverageShown() { optimizer_.hide_average(); }
  AverageShown(const AverageShown&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace forge
