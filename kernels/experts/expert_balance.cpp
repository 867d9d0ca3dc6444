#include "kernels/experts/expert_balance.h"

#include <numeric>

namespace forge {

void ExpertBalance::count(ComputeDevice& device, const StepMemory& m, const Op& route) {
  const auto experts = static_cast<size_t>(m.width(route.in[0]));
  const auto bytes = static_cast<int64_t>(experts * sizeof(float));
  ends.resize(experts), sums.resize(experts);
  device.read(ends.data(), m.data(route.out[2]), bytes);
  device.read(sums.data(), m.data(route.out[3]), bytes);
  counts.resize(experts), probability.resize(experts);
  for (size_t e = 0; e < experts; ++e) {
    counts[e] += ends[e] - (e == 0 ? 0 : ends[e - 1]);
    probability[e] += sums[e];
  }
  rows += static_cast<double>(m.tokens);
}

void ExpertBalance::clear() {
  counts.clear(), probability.clear(), slope.clear();
  rows = 0;
}

double ExpertBalance::loss(double factor) {
  const double scale = static_cast<double>(counts.size()) / (rows * rows);
  slope.clear();
  for (double count : counts) slope.push_back(static_cast<float>(factor * scale * count));
  return scale * std::inner_product(counts.begin(), counts.end(), probability.begin(), 0.0);
}

}  // namespace forge
