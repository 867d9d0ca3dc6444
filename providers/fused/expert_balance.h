#pragma once
// The loss that balances a mixture's experts (kernels/experts/experts.h), of the routers of one forward.
#include <vector>

#include "providers/fused/arena.h"

namespace forge {

struct ExpertBalance {
  std::vector<double> counts, probability;  // [experts]: sums over layers and tokens
  double rows = 0;                          // tokens times layers
  std::vector<float> slope;                 // [experts]

  // What a route has just written. Its memory is the host's.
  void count(const StepMemory& m, const Op& route);
  // And sets the slope of `factor` times the loss in each probability's sum.
  double loss(double factor);
};

}  // namespace forge
