#include "core/model/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/random.h"
#include "core/model/decoder.h"

namespace forge {

int32_t sample(const std::vector<float>& logits, const SamplingConfig& config, int64_t sequence, int64_t step) {
  if (config.temperature <= 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  size_t keep = config.top_k > 0 ? std::min<size_t>(static_cast<size_t>(config.top_k), order.size()) : order.size();
  // Ties break by id, so that the order does not depend on the sort.
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  order.resize(keep);
  std::vector<double> weight(keep);
  double total = 0;
  for (size_t i = 0; i < keep; ++i)
    total += weight[i] = std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / config.temperature);
  double cumulative = 0, kept = 0;
  size_t end = 0;
  for (; end < keep; ++end) {
    if (end > 0 && (cumulative >= config.top_p * total || weight[end] < config.min_p * weight[0])) break;
    cumulative += weight[end];
    kept += weight[end];
  }
  double point = uniform(static_cast<uint64_t>(config.seed), static_cast<uint64_t>(sequence), static_cast<uint64_t>(step)) * kept;
  for (size_t i = 0; i < end; ++i) {
    point -= weight[i];
    if (point < 0) return order[i];
  }
  return order[end - 1];
}

GenerationEnd generate(const Model& model, const std::vector<int32_t>& prompt, const SamplingConfig& config,
                       int64_t sequence, const std::function<bool(int32_t)>& emit) {
  Decoder decoder(model, static_cast<int64_t>(prompt.size()) + config.max_new_tokens);
  std::vector<int32_t> input = prompt;
  GenerationEnd end;
  while (end.tokens < config.max_new_tokens) {
    at::Tensor logits = decoder.next_logits(input).cpu();
    std::vector<float> host(logits.data_ptr<float>(), logits.data_ptr<float>() + logits.numel());
    int32_t id = sample(host, config, sequence, end.tokens);
    if (std::find(config.stop_ids.begin(), config.stop_ids.end(), id) != config.stop_ids.end()) {
      end.stopped = true;
      break;
    }
    ++end.tokens;
    if (!emit(id)) break;
    input = {id};
  }
  return end;
}

}  // namespace forge
