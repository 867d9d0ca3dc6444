#pragma once
// The loss that balances a mixture's experts, for the routers of one forward:
//
//   experts · Σ_e f_e p_e
//
// where f_e is the share of tokens that expert e got, of each layer's choices, and p_e is its mean
// probability, both over all layers' tokens (transformers' load_balancing_loss_func). The slope in
// each probability's sum is experts · f_e / rows, rows being tokens times layers.
//
// It is a product of two means, so that the loss of a whole step would need a second forward: each
// micro-batch has its own, weighted by its tokens. With one micro-batch a step it is transformers'
// to rounding.
#include <vector>

#include "kernels/device/device.h"
#include "kernels/call/arena.h"

namespace forge {

struct ExpertBalance {
  std::vector<double> counts, probability;  // [experts]: sums over layers and tokens
  double rows = 0;                          // tokens times layers
  std::vector<float> slope;                 // [experts]
  std::vector<int32_t> ends;                // [experts], of the last route, and the sums of its probabilities
  std::vector<float> sums;

  // Adds the counts and probabilities that a route has just written.
  void count(ComputeDevice& device, const StepMemory& m, const Op& route);
  // Clears the sums before the next forward. Allocated memory stays.
  void clear();
  // Returns the loss, and sets the slope of `factor` times the loss in each probability's sum.
  double loss(double factor);
};

}  // namespace forge
