#pragma once
// Chooses experts: a warp takes a token, whose scores are in shared memory. Rows are sorted by one
// block: it counts with all its warps, and its first warp then gives places in the slots' order, 32
// at a time. Sums over tokens are added warp by warp.
#include "kernels/device/reduce.cuh"

#include "core/graph/route_rule.h"  // after int64_t

namespace forge {

__device__ __forceinline__ float no_score() { return __uint_as_float(0xFF800000); }  // −∞

template <class T>
struct LogitsOf {
  Global<const T> data;
  int64_t stride;
  __device__ __forceinline__ float at(int64_t token, int64_t expert) const {
    return widen(static_cast<T>(data[token * stride + expert]));
  }
};

// The largest of all lanes' values with its number, which is the lowest number among equal ones.
// All lanes get it.
struct Best {
  float value;
  int32_t number;
};
__device__ __forceinline__ Best best_of_warp(Best mine) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const float value = __shfl_xor_sync(kAllLanes, mine.value, lanes);
    const int32_t number = __shfl_xor_sync(kAllLanes, mine.number, lanes);
    const bool other = value > mine.value || (value == mine.value && number < mine.number);
    mine.value = other ? value : mine.value;
    mine.number = other ? number : mine.number;
  }
  return mine;
}
// Returns the number of the best of `count` values and removes that value.
__device__ __forceinline__ int32_t take_best(Shared<float> values, int64_t count) {
  Best mine{no_score(), 0};
  for (int32_t i = threadIdx.x; i < count; i += kWarp) {
    const bool more = values[i] > mine.value;
    mine.value = more ? static_cast<float>(values[i]) : mine.value;
    mine.number = more ? i : mine.number;
  }
  const Best best = best_of_warp(mine);
  if (threadIdx.x == 0) values[best.number] = no_score();
  __syncwarp();
  return best.number;
}

// values = softmax(values). Each lane reads and writes values of its own, here and in load_scores.
__device__ __forceinline__ void softmax_of_warp(Shared<float> values, int64_t count) {
  float largest = no_score(), sum = 0;
  for (int64_t e = threadIdx.x; e < count; e += kWarp) largest = Maximum()(largest, values[e]);
  largest = reduce_warp(largest, Maximum());
  for (int64_t e = threadIdx.x; e < count; e += kWarp) {
    const float value = expf(values[e] - largest);
    values[e] = value, sum += value;
  }
  const float total = reduce_warp(sum, Sum());
  for (int64_t e = threadIdx.x; e < count; e += kWarp) values[e] = values[e] / total;
}

template <class T>
__device__ __forceinline__ void load_scores(LogitsOf<T> logits, RouteRule::Scores scores, int64_t token,
                                            int64_t experts, Shared<float> to) {
  for (int64_t e = threadIdx.x; e < experts; e += kWarp) {
    const float logit = logits.at(token, e);
    to[e] = scores == RouteRule::Scores::sigmoid ? 1.0f / (1.0f + expf(-logit)) : logit;
  }
  if (scores == RouteRule::Scores::softmax) softmax_of_warp(to, experts);
}

// Computes the softmax of a few values, by one lane.
__device__ __forceinline__ void softmax_of_few(Shared<float> values, int64_t count) {
  float largest = no_score(), sum = 0;
  for (int64_t j = 0; j < count; ++j) largest = Maximum()(largest, values[j]);
  for (int64_t j = 0; j < count; ++j) {
    const float value = expf(values[j] - largest);
    values[j] = value, sum += value;
  }
  for (int64_t j = 0; j < count; ++j) values[j] = values[j] / sum;
}

template <class T>
struct ChooseArgs {
  LogitsOf<T> logits;
  Global<const T> correction;
  Global<float> weights;
  Global<int32_t> chosen;  // the experts' numbers, where their rows' places will be
  RouteRule rule;
  int64_t experts;
};

// A group is worth the sum of its best; those of worse groups cannot be chosen.
__device__ __forceinline__ void keep_groups(const RouteRule& rule, int64_t experts, Shared<float> ranked,
                                            Shared<float> worth, Shared<float> kept) {
  const int64_t size = experts / rule.groups;
  for (int64_t group = threadIdx.x; group < rule.groups; group += kWarp) {
    float sum = 0;
    Best last{__uint_as_float(0x7F800000), -1};  // above all
    for (int64_t i = 0; i < rule.group_best; ++i) {
      Best next{no_score(), static_cast<int32_t>(size)};
      for (int32_t m = 0; m < size; ++m) {
        const float value = ranked[group * size + m];
        const bool behind = value < last.value || (value == last.value && m > last.number);
        if (behind && value > next.value) next = {value, m};
      }
      sum += next.value, last = next;
    }
    worth[group] = sum, kept[group] = 0;
  }
  for (int64_t i = 0; i < rule.groups_per_token; ++i) {
    const int32_t best = take_best(worth, rule.groups);
    if (threadIdx.x == 0) kept[best] = 1;
    __syncwarp();
  }
  for (int64_t e = threadIdx.x; e < experts; e += kWarp)
    if (kept[e / size] == 0) ranked[e] = no_score();
}

// Shared memory: scores and their ranking [experts], worth and kept [groups], the chosen experts
// [per_token].
template <class T>
__global__ void __launch_bounds__(kWarp) expert_choose_kernel(ChooseArgs<T> a) {
  const RouteRule& rule = a.rule;
  const int64_t token = blockIdx.x;
  const Shared<float> scores = dynamic_shared<float>(), ranked = scores + a.experts,
                      worth = ranked + a.experts, kept = worth + rule.groups, weights = kept + rule.groups;
  load_scores(a.logits, rule.scores, token, a.experts, scores);
  for (int64_t e = threadIdx.x; e < a.experts; e += kWarp)
    ranked[e] = a.correction != nullptr ? scores[e] + widen(static_cast<T>(a.correction[e]))
                                        : static_cast<float>(scores[e]);
  __syncwarp();
  if (rule.groups_per_token < rule.groups) keep_groups(rule, a.experts, ranked, worth, kept);
  for (int64_t j = 0; j < rule.per_token; ++j) {
    const int32_t best = take_best(ranked, a.experts);
    if (threadIdx.x == 0) a.chosen[token * rule.per_token + j] = best, weights[j] = scores[best];
  }
  if (threadIdx.x != 0) return;
  if (rule.scores == RouteRule::Scores::chosen_softmax) softmax_of_few(weights, rule.per_token);
  float sum = 0;
  for (int64_t j = 0; j < rule.per_token; ++j) sum += weights[j];
  const float factor = static_cast<float>(rule.scale) / (rule.normalise ? sum + static_cast<float>(rule.sum_eps) : 1.0f);
  for (int64_t j = 0; j < rule.per_token; ++j) a.weights[token * rule.per_token + j] = weights[j] * factor;
}

constexpr int kSortThreads = 256;

// Replaces the experts' numbers in `places` by places. Shared memory: [experts].
__global__ void __launch_bounds__(kSortThreads)
    expert_sort_kernel(Global<int32_t> places, Global<int32_t> ends, int64_t slots, int64_t experts) {
  const Shared<int32_t> next = dynamic_shared<int32_t>();
  for (int64_t e = threadIdx.x; e < experts; e += kSortThreads) next[e] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < slots; i += kSortThreads)
    atomicAdd(next + static_cast<int32_t>(places[i]), 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t end = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const int32_t count = next[e];
      next[e] = end, end += count;
      ends[e] = end;
    }
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  const int lane = threadIdx.x;
  for (int64_t first = 0; first < slots; first += kWarp) {
    const bool there = first + lane < slots;
    const int32_t expert = there ? static_cast<int32_t>(places[first + lane]) : -1;
    int32_t before = 0, all = 0;
    for (int other = 0; other < kWarp; ++other) {
      const bool same = __shfl_sync(kAllLanes, expert, other) == expert;
      all += same, before += same && other < lane;
    }
    const int32_t begin = there ? static_cast<int32_t>(next[expert]) : 0;
    __syncwarp();
    if (there && before == 0) next[expert] = begin + all;
    if (there) places[first + lane] = begin + before;
    __syncwarp();
  }
}

constexpr int kProbabilityWarps = 8;

// Runs in one block. Shared memory: sums of each warp [warps, experts].
template <class T>
__global__ void __launch_bounds__(kProbabilityWarps* kWarp)
    expert_probability_kernel(LogitsOf<T> logits, Global<float> probability, int64_t tokens,
                              int64_t experts) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Shared<float> all = dynamic_shared<float>(), sums = all + warp * experts;
  for (int64_t e = lane; e < experts; e += kWarp) sums[e] = 0;
  for (int64_t token = warp; token < tokens; token += kProbabilityWarps) {
    float largest = no_score(), sum = 0;
    for (int64_t e = lane; e < experts; e += kWarp) largest = Maximum()(largest, logits.at(token, e));
    largest = reduce_warp(largest, Maximum());
    for (int64_t e = lane; e < experts; e += kWarp) sum += expf(logits.at(token, e) - largest);
    const float total = reduce_warp(sum, Sum());
    for (int64_t e = lane; e < experts; e += kWarp) sums[e] += expf(logits.at(token, e) - largest) / total;
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < experts; e += kProbabilityWarps * kWarp) {
    float sum = 0;
    for (int w = 0; w < kProbabilityWarps; ++w) sum += all[w * experts + e];
    probability[e] = sum;
  }
}

template <class T>
struct RouteBackwardArgs {
  LogitsOf<T> logits;
  Global<const float> d_weights, slope;
  Global<const int32_t> places, ends;
  Global<T> d_logits;
  int64_t d_logits_stride;
  RouteRule rule;
  int64_t experts;
};

// Returns the expert that the row at the place belongs to.
__device__ __forceinline__ int32_t expert_of(Global<const int32_t> ends, int64_t experts, int32_t place) {
  int32_t low = 0, high = static_cast<int32_t>(experts);
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (ends[middle] > place)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Writes d of the chosen scores in place of d weights. One lane computes it.
__device__ __forceinline__ void weights_backward(const RouteRule& rule, Shared<float> chosen,
                                                 Shared<float> d) {
  float sum = 1, dot = 0;
  if (rule.normalise) {
    sum = static_cast<float>(rule.sum_eps);
    for (int64_t j = 0; j < rule.per_token; ++j) sum += chosen[j];
    for (int64_t j = 0; j < rule.per_token; ++j) dot += d[j] * chosen[j] / sum;
  }
  for (int64_t j = 0; j < rule.per_token; ++j) d[j] = (d[j] - dot) / sum * static_cast<float>(rule.scale);
}

// to += p (d − Σ p d), p the softmax of all.
__device__ __forceinline__ void add_softmax_backward(Shared<float> p, Shared<float> d, Shared<float> to,
                                                     int64_t experts) {
  float dot = 0;
  for (int64_t e = threadIdx.x; e < experts; e += kWarp) dot += p[e] * d[e];
  dot = reduce_warp(dot, Sum());
  for (int64_t e = threadIdx.x; e < experts; e += kWarp) to[e] += p[e] * (d[e] - dot);
}

// Shared memory: scores, d scores, d logits [experts]; chosen, d [per_token]; their experts
// [per_token].
template <class T>
__global__ void __launch_bounds__(kWarp) expert_route_backward_kernel(RouteBackwardArgs<T> a) {
  using Scores = RouteRule::Scores;
  const RouteRule& rule = a.rule;
  const int64_t token = blockIdx.x, per_token = rule.per_token;
  const Shared<float> scores = dynamic_shared<float>(), d_scores = scores + a.experts,
                      d_logits = d_scores + a.experts, chosen = d_logits + a.experts, d = chosen + per_token,
                      number = d + per_token;
  load_scores(a.logits, rule.scores, token, a.experts, scores);
  for (int64_t e = threadIdx.x; e < a.experts; e += kWarp)
    d_logits[e] = 0, d_scores[e] = a.slope != nullptr ? static_cast<float>(a.slope[e]) : 0.0f;
  __syncwarp();
  for (int64_t j = threadIdx.x; j < per_token; j += kWarp) {
    const int32_t expert = expert_of(a.ends, a.experts, a.places[token * per_token + j]);
    number[j] = static_cast<float>(expert), chosen[j] = scores[expert],
    d[j] = a.d_weights[token * per_token + j];
  }
  __syncwarp();
  if (threadIdx.x == 0) {
    if (rule.scores == Scores::chosen_softmax) softmax_of_few(chosen, per_token);
    weights_backward(rule, chosen, d);
    float dot = 0;
    if (rule.scores == Scores::chosen_softmax)
      for (int64_t j = 0; j < per_token; ++j) dot += d[j] * chosen[j];
    for (int64_t j = 0; j < per_token; ++j) {
      const auto expert = static_cast<int64_t>(static_cast<float>(number[j]));
      if (rule.scores == Scores::softmax)
        d_scores[expert] += d[j];
      else
        d_logits[expert] +=
            chosen[j] * (rule.scores == Scores::sigmoid ? d[j] * (1.0f - chosen[j]) : d[j] - dot);
    }
  }
  __syncwarp();
  if (a.slope != nullptr && rule.scores != Scores::softmax)
    load_scores(a.logits, Scores::softmax, token, a.experts, scores);
  if (a.slope != nullptr || rule.scores == Scores::softmax)
    add_softmax_backward(scores, d_scores, d_logits, a.experts);
  for (int64_t e = threadIdx.x; e < a.experts; e += kWarp)
    a.d_logits[token * a.d_logits_stride + e] = narrow<T>(d_logits[e]);
}

}  // namespace forge
