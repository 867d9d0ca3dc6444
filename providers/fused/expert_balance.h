#pragma once
// The loss that balances a mixture's experts (kernels/experts/experts.h), of the routers of one forward.
#include <vector>

#include "kernels/device/device.h"
#include "providers/fused/arena.h"

namespace forge {

struct ExpertBalance {
  std::vector<double> counts, probability;  // [experts]: sums over layers and tokens
  double rows = 0;                          // tokens times layers
  std::vector<float> slope;                 // [experts]
  std::vector<int32_t> ends;                // [experts], of the last route, and the sums of its probabilities
  std::vector<float> sums;

  // What a route has just written.
  void count(ComputeDevice& device, const StepMemory& m, const Op& route);
  // Before the next forward. What was allocated stays.
  void clear();
  // And sets the slope of `factor` times the loss in each probability's sum.
  double loss(double factor);
};

}  // namespace forge
