#include "core/train/step_window.h"

#include <algorithm>

namespace forge {

void add(StepWindow& window, const StepStats& stats) {
  ++window.steps;
  window.skipped += stats.skipped;
  if (!stats.skipped) {
    window.loss += stats.loss;
    window.ratio_most = std::max(window.ratio_most, stats.ratio_most);
    for (const auto& [name, mean] : stats.metrics) {
      window.sums[name] += mean.sum;
      window.counts[name] += mean.count;
    }
  }
  window.examples += stats.examples;
  window.tokens += stats.tokens;
  window.supervised_tokens += stats.supervised_tokens;
  window.seconds += stats.seconds;
  window.data_seconds += stats.data_seconds;
}

Json step_facts(const StepWindow& window, const StepStats& last) {
  const int64_t trained = window.steps - window.skipped;
  Json facts{{"loss", trained > 0 ? window.loss / static_cast<double>(trained) : last.loss},
             {"learning_rate", last.learning_rate},
             {"grad_norm", last.grad_norm},
             {"examples", window.examples},
             {"tokens", window.tokens},
             {"supervised_tokens", window.supervised_tokens},
             {"tokens_per_second", static_cast<double>(window.tokens) / window.seconds},
             {"step_seconds", window.seconds},
             {"data_wait_seconds", window.data_seconds},
             {"skipped", window.skipped > 0}};
  Metrics metrics;
  for (const auto& [name, sum] : window.sums) metrics[name] = {sum, window.counts.at(name)};
  for (const auto& [name, mean] : means_of(metrics)) facts[name] = mean;
  if (window.ratio_most > 0) facts["ratio_most"] = window.ratio_most;
  if (window.reference_gap_step0 >= 0) facts["reference_gap_step0"] = window.reference_gap_step0;
  return facts;
}

}  // namespace forge
