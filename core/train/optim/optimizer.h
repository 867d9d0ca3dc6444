#pragma once
// The optimizer: updates the flat buffers of trained parameters. It measures the gradients' norm,
// from which it derives their scale, then applies the rule (core/train/optim/rules.h). State is
// flat like the parameters (core/model/families/trained_layout.h).
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "core/job/job.h"
#include "core/model/trainable.h"
#include "core/train/optim/rules.h"
#include "kernels/device/captures.h"

namespace forge {

// The result of measuring a step's gradients.
struct GradientVerdict {
  std::array<float, 3> numbers{0, 1, 1};

  float norm() const { return numbers[0]; }          // ‖gradients‖₂ · unscale
  // The factor of the gradients in the update: unscale, and the clipping.
  float scale() const { return numbers[1]; }
  bool finite() const { return numbers[2] != 0; }    // none of them is infinite or NaN
};

class Optimizer {
 public:
  // `lora_plus_ratio` multiplies the learning rate of every lora_b.
  Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables);

  // Measures the norm of the gradients times `unscale`, and the factor that clips it to `max_norm`
  // like torch.nn.utils.clip_grad_norm_; ≤ 0: no clipping. The next update applies both. Sums have
  // a fixed order, so the number of threads does not change them. `workspace` has norm_workspace()
  // bytes.
  const GradientVerdict& measure(double unscale, double max_norm, void* workspace);
  int64_t norm_workspace() const;

  // For schedule_free: the numbers from which the share of the next point in the average follows.
  struct Average {
    double largest_rate = 0, weights = 0;  // weights: Σ largest rate² over the updates
  };
  Average average;

  // Puts the average into the trained weights, where the rule keeps one, and restores the weights
  // exactly. The weights are kept in the gradients' buffer meanwhile, so no step may come between.
  // Without an average they do nothing.
  void show_average();
  void hide_average();
  // True if the gradients' buffer holds the trained weights now.
  bool shows_average() const { return hidden_.defined(); }

  // Does one update. `learning_rate` is the schedule's value; `updates` counts updates from 1.
  void update(double learning_rate, int64_t updates);
  ComputeDevice& device() const { return device_; }

  // Returns the state's flat buffers, in the order of the layout's parts. The host may read and
  // write them until the next update.
  std::vector<at::Tensor>& states();

 private:
  void place_numbers();
  double note_rate(double rate);
  float* verdict() { return separate_.bytes() > 0 ? separate_.as<float>() : verdict_.numbers.data(); }

  TrainableSet& trainables_;
  ComputeDevice& device_;
  OptimizerRule rule_;
  // offloaded_: the state is in the host's memory, where the kernel reads and writes it.
  bool has_kernel_, offloaded_;
  std::vector<at::Tensor> states_;
  at::Tensor hidden_;
  // A part of the flat buffers with one kind of state. Its gradients and weights are set at each
  // update.
  struct Stretch {
    int64_t begin = 0, slice = 0;  // the first element, and the first slice by its number
    UpdateStretch update;
  };
  std::vector<Stretch> stretches_;
  // The numbers of a step that the device reads. The verdict is not among them, since the device
  // writes it.
  struct StepNumbers {
    float unscale = 1;
    UpdateNumbers update;
  };
  const StepNumbers* place(const StepNumbers& numbers);

  GradientVerdict verdict_;
  StepNumbers numbers_;
  Captures<FlatNorm> norm_captures_;
  // Captured updates, by the addresses of weights, gradients and copy.
  Captures<std::array<const void*, 3>> update_captures_;
  int64_t numbers_at_ = 0;  // in separate_
  const float *signed_map_ = nullptr, *unsigned_map_ = nullptr;
  // The verdict, the step's numbers, the maps of 8-bit state and the ranges, where the device's
  // memory is separate from the host's.
  DeviceBlock separate_;
};

// Shows the average during its lifetime.
class AverageShown {
 public:
  explicit AverageShown(Optimizer& optimizer) : optimizer_(optimizer) { optimizer_.show_average(); }
  ~AverageShown() { optimizer_.hide_average(); }
  AverageShown(const AverageShown&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace forge
