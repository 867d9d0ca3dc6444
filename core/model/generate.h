#pragma once
// Text from a model: one sequence, key-value cache, sampling by counter so that a seed repeats its text.
#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/model.h"

namespace forge {

struct SamplingConfig {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;        // relative to the most likely token
  int64_t seed = 42;
  std::vector<int32_t> stop_ids;
};

struct GenerationEnd {
  bool stopped = false;  // on a stop token; otherwise the length ran out
  int64_t tokens = 0;
};

// Calls `emit` for every new token (stop tokens excluded); `emit` returns false to end early.
GenerationEnd generate(const Model& model, const std::vector<int32_t>& prompt, const SamplingConfig& config,
                       int64_t sequence, const std::function<bool(int32_t)>& emit);

// One token from fp32 logits on the CPU. Order of the filters as transformers: temperature, top-k, top-p, min-p.
int32_t sample(const std::vector<float>& logits, const SamplingConfig& config, int64_t sequence, int64_t step);

}  // namespace forge
