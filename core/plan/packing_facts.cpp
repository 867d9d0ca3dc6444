#include "core/plan/packing_facts.h"

#include <algorithm>
#include <span>

#include "core/data/batch/order.h"

namespace forge {

PackingFacts packing_of(const Fitted& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  constexpr size_t kMeasuredSteps = 1000;
  const TrainConfig& train = plan.job.train;
  if (lengths.empty()) return {};
  const std::span steps(first_epoch.data(), std::min(first_epoch.size(), kMeasuredSteps));
  BatchFill step_fill, micro_fill;
  for (const auto& step : steps) {
    if (train.global_batch_tokens) step_fill.add({step}, lengths, *train.global_batch_tokens);
    micro_fill.add(micro_batches(step, lengths, plan.job), lengths, *train.micro_batch_tokens);
  }
  return {static_cast<double>(micro_fill.parts) / static_cast<double>(steps.size()), micro_fill.share(), step_fill.share()};
}

}  // namespace forge
