// Chooses experts. One thread computes a token; sums over tokens are added block by block, in an
// order that does not depend on the number of threads.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/common/typed.h"
#include "kernels/experts/experts_args.h"

namespace forge {
namespace {

using Scores = RouteRule::Scores;
constexpr int64_t kBlock = 32;  // tokens
constexpr float kOut = -std::numeric_limits<float>::infinity();

// Buffers of one token's choice, reused for the next token.
struct Scratch {
  Scratch(const RouteRule& rule, int64_t experts)
      : scores(static_cast<size_t>(experts)),
        ranked(scores.size()),
        sums(scores.size()),
        expert(static_cast<size_t>(rule.per_token)),
        chosen(expert.size()),
        d(expert.size()) {}
  std::vector<float> scores, ranked, sums;  // [experts]
  std::vector<size_t> expert;               // [per_token]
  std::vector<float> chosen, d;             // [per_token]
};

// Calls visit(T{}, block, first token, end of the tokens, scratch) for each block of tokens.
template <class Args, class Visit>
void each_block(const Args& a, Visit visit) {
  of_type(a.type, [&](auto zero) {
    at::parallel_for(0, (a.tokens + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
      Scratch scratch(a.rule, a.experts);
      for (int64_t block = begin; block < end; ++block)
        visit(zero, block, block * kBlock, std::min(a.tokens, (block + 1) * kBlock), scratch);
    });
  });
}

void softmax(std::vector<float>& values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

template <class T>
void read_scores(const T* logits, Scores scores, std::vector<float>& out) {
  for (size_t e = 0; e < out.size(); ++e) out[e] = to_float(logits[e]);
  if (scores == Scores::softmax) softmax(out);
  if (scores == Scores::sigmoid)
    for (float& value : out) value = 1 / (1 + std::exp(-value));
}

// Returns the number of the best and removes its value.
size_t take_best(std::vector<float>& ranked) {
  const auto best = std::max_element(ranked.begin(), ranked.end());
  *best = kOut;
  return static_cast<size_t>(best - ranked.begin());
}

void keep_groups(const RouteRule& rule, std::vector<float>& ranked) {
  const int64_t size = static_cast<int64_t>(ranked.size()) / rule.groups;
  std::vector<float> best;
  for (int64_t group = 0; group < rule.groups; ++group) {
    std::vector<float> members(ranked.begin() + group * size, ranked.begin() + (group + 1) * size);
    std::partial_sort(members.begin(), members.begin() + rule.group_best, members.end(), std::greater<>());
    float sum = 0;
    for (int64_t i = 0; i < rule.group_best; ++i) sum += members[static_cast<size_t>(i)];
    best.push_back(sum);
  }
  std::vector<bool> kept(best.size(), false);
  for (int64_t i = 0; i < rule.groups_per_token; ++i) kept[take_best(best)] = true;
  for (size_t e = 0; e < ranked.size(); ++e)
    if (!kept[e / static_cast<size_t>(size)]) ranked[e] = kOut;
}

// Writes the chosen experts' numbers to `places`, where sort_by_expert() replaces them by the rows'
// places.
template <class T>
void choose(const ExpertRoute& a, int64_t token, Scratch& s) {
  const RouteRule& rule = a.rule;
  read_scores(row_of<T>(a.logits, token, a.logits_stride), rule.scores, s.scores);
  s.ranked = s.scores;
  if (a.correction)
    for (size_t e = 0; e < s.ranked.size(); ++e)
      s.ranked[e] += to_float(static_cast<const T*>(a.correction)[e]);
  if (rule.groups_per_token < rule.groups) keep_groups(rule, s.ranked);
  for (size_t j = 0; j < s.chosen.size(); ++j) {
    const size_t best = take_best(s.ranked);
    a.places[token * rule.per_token + static_cast<int64_t>(j)] = static_cast<int32_t>(best);
    s.chosen[j] = s.scores[best];
  }
  if (rule.scores == Scores::chosen_softmax) softmax(s.chosen);
  float sum = 0;
  for (float weight : s.chosen) sum += weight;
  const float factor = static_cast<float>(rule.scale) / (rule.normalise ? sum + static_cast<float>(rule.sum_eps) : 1);
  for (size_t j = 0; j < s.chosen.size(); ++j)
    a.weights[token * rule.per_token + static_cast<int64_t>(j)] = s.chosen[j] * factor;
}

// Writes the sums of the probabilities of tokens [begin, end) to sums [experts].
template <class T>
void add_probabilities(const ExpertRoute& a, int64_t begin, int64_t end, Scratch& s, float* sums) {
  std::fill(sums, sums + a.experts, 0.0f);
  for (int64_t token = begin; token < end; ++token) {
    read_scores(row_of<T>(a.logits, token, a.logits_stride), Scores::softmax, s.scores);
    for (size_t e = 0; e < s.scores.size(); ++e) sums[e] += s.scores[e];
  }
}

// Replaces the numbers of experts in `places` by places, and writes the experts' ends.
void sort_by_expert(const ExpertRoute& a) {
  const int64_t slots = a.tokens * a.rule.per_token;
  std::vector<int32_t> next(static_cast<size_t>(a.experts), 0);
  for (int64_t i = 0; i < slots; ++i) ++next[static_cast<size_t>(a.places[i])];
  int32_t end = 0;
  for (size_t e = 0; e < next.size(); ++e) {
    const int32_t count = next[e];
    next[e] = end;
    a.ends[e] = end += count;
  }
  for (int64_t i = 0; i < slots; ++i) a.places[i] = next[static_cast<size_t>(a.places[i])]++;
}

// Turns d weights into d of the chosen scores, in place.
void weights_backward(const RouteRule& rule, const std::vector<float>& chosen, std::vector<float>& d) {
  if (rule.normalise) {
    float sum = static_cast<float>(rule.sum_eps), dot = 0;
    for (float score : chosen) sum += score;
    for (size_t j = 0; j < d.size(); ++j) dot += d[j] * chosen[j] / sum;
    for (float& value : d) value = (value - dot) / sum;
  }
  for (float& value : d) value *= static_cast<float>(rule.scale);
}

// Computes d logits += p (d − Σ p d), where p is the softmax of all and d is zero for experts
// without a gradient.
void add_softmax_backward(const std::vector<float>& p, const std::vector<float>& d,
                          std::vector<float>& d_logits) {
  float dot = 0;
  for (size_t e = 0; e < p.size(); ++e) dot += p[e] * d[e];
  for (size_t e = 0; e < p.size(); ++e) d_logits[e] += p[e] * (d[e] - dot);
}

// Adds d logits of the chosen scores' d, for scores that depend on the expert's own logit alone, or
// on the chosen ones.
void add_own_backward(Scores scores, const Scratch& s, std::vector<float>& d_logits) {
  float dot = 0;
  if (scores == Scores::chosen_softmax)
    for (size_t j = 0; j < s.d.size(); ++j) dot += s.d[j] * s.chosen[j];
  for (size_t j = 0; j < s.d.size(); ++j)
    d_logits[s.expert[j]] +=
        s.chosen[j] * (scores == Scores::sigmoid ? s.d[j] * (1 - s.chosen[j]) : s.d[j] - dot);
}

template <class T>
void backward(const ExpertRouteBackward& a, int64_t token, Scratch& s) {
  const RouteRule& rule = a.rule;
  const T* logits = row_of<T>(a.logits, token, a.logits_stride);
  read_scores(logits, rule.scores, s.scores);
  for (size_t j = 0; j < s.d.size(); ++j) {
    const int64_t slot = token * rule.per_token + static_cast<int64_t>(j);
    s.expert[j] = static_cast<size_t>(std::upper_bound(a.ends, a.ends + a.experts, a.places[slot]) - a.ends);
    s.chosen[j] = s.scores[s.expert[j]];
    s.d[j] = a.d_weights[slot];
  }
  if (rule.scores == Scores::chosen_softmax) softmax(s.chosen);
  weights_backward(rule, s.chosen, s.d);
  std::vector<float>&d_scores = s.ranked, &d_logits = s.sums;
  std::fill(d_logits.begin(), d_logits.end(), 0.0f);
  std::fill(d_scores.begin(), d_scores.end(), 0.0f);
  if (a.slope) std::copy(a.slope, a.slope + a.experts, d_scores.begin());
  if (rule.scores == Scores::softmax)
    for (size_t j = 0; j < s.d.size(); ++j) d_scores[s.expert[j]] += s.d[j];
  else
    add_own_backward(rule.scores, s, d_logits);
  if (a.slope && rule.scores != Scores::softmax) read_scores(logits, Scores::softmax, s.scores);
  if (a.slope || rule.scores == Scores::softmax) add_softmax_backward(s.scores, d_scores, d_logits);
  T* out = static_cast<T*>(a.d_logits) + token * a.d_logits_stride;
  for (size_t e = 0; e < d_logits.size(); ++e) from_float(d_logits[e], out[e]);
}

}  // namespace

void expert_route_cpu(const ExpertRoute& a) {
  std::vector<float> sums(a.probability ? static_cast<size_t>((a.tokens + kBlock - 1) / kBlock * a.experts)
                                        : 0);
  each_block(a, [&](auto zero, int64_t block, int64_t begin, int64_t end, Scratch& scratch) {
    using T = decltype(zero);
    for (int64_t token = begin; token < end; ++token) choose<T>(a, token, scratch);
    if (a.probability) add_probabilities<T>(a, begin, end, scratch, sums.data() + block * a.experts);
  });
  sort_by_expert(a);
  if (!a.probability) return;
  std::fill(a.probability, a.probability + a.experts, 0.0f);
  for (size_t i = 0; i < sums.size(); ++i) a.probability[i % static_cast<size_t>(a.experts)] += sums[i];
}

void expert_route_backward_cpu(const ExpertRouteBackward& a) {
  each_block(a, [&](auto zero, int64_t, int64_t begin, int64_t end, Scratch& scratch) {
    for (int64_t token = begin; token < end; ++token) backward<decltype(zero)>(a, token, scratch);
  });
}

}  // namespace forge
