#include "core/plan/fit/fullest.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/data/batch/order.h"
#include "core/data/batch/text_groups.h"
#include "core/learn/objective/objective.h"
#include "core/plan/fit/fitted.h"

namespace forge {
namespace {

constexpr int64_t kMostVisits =
    200'000;  // examples whose batches are laid out exactly; beyond this a bound is used

// Returns the maximum number of tokens in a step: its examples cannot all be the longest of the
// data set.
int64_t step_bound(const Schedule& plan, const std::vector<int64_t>& lengths) {
  if (plan.job.train.global_batch_tokens)
    return std::max(*plan.job.train.global_batch_tokens, longest_of(plan));
  const auto examples = static_cast<size_t>(*plan.job.train.global_batch_size);
  if (lengths.empty()) return static_cast<int64_t>(examples) * longest_of(plan);
  std::vector<int64_t> sorted = lengths;
  const auto end = sorted.begin() + static_cast<int64_t>(std::min(examples, sorted.size()));
  std::partial_sort(sorted.begin(), end, sorted.end(), std::greater<>());
  return std::accumulate(sorted.begin(), end, int64_t{0});
}

// Returns a bound of the supervised tokens of a micro-batch if only the data set's share is known:
// that share plus a quarter.
int64_t supervised_bound(const Schedule& plan, const DataSummary& data, int64_t tokens) {
  if (plan.model.score_head) return tokens / 2 + 1;  // a text has at least two tokens, of which the head reads one
  const double share =
      static_cast<double>(data.supervised_tokens) / static_cast<double>(std::max<int64_t>(1, data.tokens));
  return std::min(tokens, static_cast<int64_t>(1.25 * share * static_cast<double>(tokens)) + 1);
}

// Accounts for pairs: lengths are per atom, and a pair is two sequences.
void know_pairs(Fullest& fullest, const DataSummary& data) {
  if (data.pairs.longest == 0) return;
  fullest.longest = data.longest;
  fullest.several = true;
}

void visit(Fullest& fullest, const Schedule& plan, const std::vector<int64_t>& batch, const std::vector<int64_t>& lengths,
           const std::vector<int64_t>& supervised) {
  int64_t tokens = 0, targets = 0;
  std::vector<TextLengths> texts;
  for (int64_t index : batch) {
    const auto i = static_cast<size_t>(index);
    const int64_t answer = i < supervised.size() ? supervised[i] : 0;
    tokens += lengths[i], targets += answer;
    fullest.longest = std::max(fullest.longest, lengths[i]);
    if (!plan.model.reads_source()) continue;
    const int64_t source = lengths[i] - answer;  // includes the token before the answer
    texts.push_back({source, answer});
    fullest.longest_answer = std::max(fullest.longest_answer, answer);
    fullest.longest_source = std::max(fullest.longest_source, source);
  }
  fullest.source = std::max(fullest.source, tokens - targets);
  if (!texts.empty()) take_most(fullest.groups, text_groups(texts));
  fullest.tokens = std::max(fullest.tokens, tokens);
  fullest.supervised = std::max(fullest.supervised, targets);
  fullest.several |= batch.size() > 1;
  const bool pairs = plan.train.pairs.longest > 0 || plan.eval.pairs.longest > 0;
  fullest.texts = std::max(fullest.texts, static_cast<int64_t>(batch.size()) * (pairs ? 2 : 1));
}

// Bounds both sides if only lengths of whole examples are known.
void bound_sides(Fullest& fullest) {
  fullest.source = fullest.tokens;
  fullest.longest_source = fullest.longest_answer = fullest.longest;
  fullest.groups = bound_of_groups(fullest.tokens, fullest.longest);
}

void visit_in_order(Fullest& fullest, const Schedule& plan, int64_t budget, const DataSummary& data, const std::vector<int64_t>& lengths,
                    const std::vector<int64_t>& supervised) {
  if (lengths.empty()) {
    fullest.tokens = std::max({fullest.tokens, budget, data.longest, data.pairs.longest});
    fullest.supervised = std::max(fullest.supervised, supervised_bound(plan, data, fullest.tokens));
    fullest.longest = std::max(fullest.longest, data.longest);
    fullest.several = true, fullest.texts = kManyTexts;
    bound_sides(fullest);
  } else {
    std::vector<int64_t> order(lengths.size());
    std::iota(order.begin(), order.end(), 0);
    for (const std::vector<int64_t>& batch : fill_in_order(order, lengths, budget))
      visit(fullest, plan, batch, lengths, supervised);
    if (supervised.empty()) bound_sides(fullest);
    if (supervised.empty()) fullest.supervised = std::max(fullest.supervised, supervised_bound(plan, data, fullest.tokens));
  }
  know_pairs(fullest, data);
}

// Visits kto's answers after other prompts, in batches of an evaluation. Only the data's prompts
// decide which ones meet; lengths bound any combination: the prompts of `items`, each with an
// answer as long as the longest of theirs.
void visit_mismatches(Fullest& fullest, const Schedule& plan, int64_t budget, const std::vector<int64_t>& items, const std::vector<int64_t>& lengths,
                      const std::vector<int64_t>& supervised) {
  int64_t prompts = 0, longest_prompt = 0, shortest_prompt = INT64_MAX, answer = 0;
  for (const int64_t item : items) {
    const auto i = static_cast<size_t>(item);
    const int64_t prompt = lengths[i] - supervised[i];
    prompts += prompt;
    longest_prompt = std::max(longest_prompt, prompt);
    shortest_prompt = std::min(shortest_prompt, prompt);
    answer = std::max(answer, supervised[i]);
  }
  const auto count = static_cast<int64_t>(items.size());
  if (count == 0) return;
  const int64_t longest = std::min(longest_prompt + answer, plan.job.data.max_length);
  const int64_t tokens = std::min(prompts + count * answer, std::max(budget, longest));
  fullest.tokens = std::max(fullest.tokens, tokens);
  fullest.longest = std::max(fullest.longest, longest);
  // A batch of k rows has at most k answers, and its tokens minus k prompts.
  fullest.supervised = std::max({fullest.supervised, std::min(answer, longest - 1),
                                 std::min(count * answer, tokens * answer / (shortest_prompt + answer))});
  fullest.several |= count > 1;
  fullest.texts = std::max(fullest.texts, count);
}

void visit_mismatches(Fullest& fullest, const Schedule& plan, int64_t budget, const ExampleCounts& counts) {
  std::vector<int64_t> all(counts.eval_supervised.size());
  std::iota(all.begin(), all.end(), 0);
  visit_mismatches(fullest, plan, budget, all, counts.eval, counts.eval_supervised);
  if (counts.train_supervised.empty()) {  // only estimated
    fullest.texts = kManyTexts;
    fullest.tokens = std::max({fullest.tokens, budget, longest_of(plan)});
    fullest.longest = std::max(fullest.longest, std::min(2 * plan.train.longest, plan.job.data.max_length));
    fullest.supervised = std::max(fullest.supervised, supervised_bound(plan, plan.train, fullest.tokens));
    return;
  }
  int64_t left = plan.steps == 0 ? plan.steps_per_epoch : std::min(plan.steps, kMostVisits / *plan.job.train.global_batch_size + 1);
  for (int64_t epoch = 0; left > 0; ++epoch)
    for (const std::vector<int64_t>& step : epoch_steps(counts.train, plan.job, epoch)) {
      if (left-- <= 0) break;
      visit_mismatches(fullest, plan, budget, step, counts.train, counts.train_supervised);
    }
}

// Returns full micro-batches: completions do not exist yet, and any micro-batch may be full of
// them.
Fullest fullest_drawn(const Schedule& plan, const MicroBatch& micro_batch) {
  const int64_t longest = longest_of(plan);
  int64_t budget = std::max(micro_batch.tokens, longest);
  if (!plan.job.data.packing) budget = std::min(budget, micro_batch.examples * longest);
  const int64_t drawn = plan.job.rollout.prompts_per_step * plan.job.rollout.samples_per_prompt;
  budget = std::min(budget, drawn * longest);
  return {budget, budget, longest, budget > longest, plan.job.data.packing ? drawn : std::min(drawn, micro_batch.examples)};
}

}  // namespace

int64_t longest_of(const Schedule& plan) {
  // A drawn sequence is a prompt plus the longest completion that it may get.
  if (draws_completions(plan.job.objective.type()))
    return std::min(plan.job.data.max_length, std::max<int64_t>(1, plan.train.longest) + plan.job.rollout.max_new_tokens);
  return std::max<int64_t>(1, std::max(plan.train.longest, plan.train.pairs.longest));
}

// The order is a function of seed and data, so the fullest micro-batch can be looked up; a bound is
// used while data are only estimated.
Fullest fullest_training(const Schedule& plan, const MicroBatch& micro_batch, const ExampleCounts& counts) {
  const std::vector<int64_t>& lengths = counts.train;
  if (draws_completions(plan.job.objective.type())) return fullest_drawn(plan, micro_batch);
  const int64_t epochs =
      plan.steps == 0 ? 1
                      : std::max<int64_t>(1, (plan.steps + plan.steps_per_epoch - 1) / plan.steps_per_epoch);
  Fullest fullest;
  if (!lengths.empty() && static_cast<int64_t>(lengths.size()) * epochs <= kMostVisits) {
    fullest.several = false;
    int64_t left = plan.steps == 0 ? INT64_MAX : plan.steps;
    for (int64_t epoch = 0; epoch < epochs; ++epoch)
      for (const auto& step : epoch_steps(lengths, plan.job, epoch)) {
        if (left-- <= 0) break;
        for (const auto& batch : micro_batches(step, lengths, plan.job.data.packing, micro_batch))
          visit(fullest, plan, batch, lengths, counts.train_supervised);
      }
  } else {
    int64_t budget = std::max(micro_batch.tokens, longest_of(plan));
    if (!plan.job.data.packing) budget = std::min(budget, micro_batch.examples * longest_of(plan));
    fullest.texts = kManyTexts;
    fullest.tokens = std::min(budget, step_bound(plan, lengths));
    fullest.longest = std::min(fullest.tokens, longest_of(plan));
    bound_sides(fullest);
  }
  if (counts.train_supervised.empty()) bound_sides(fullest);
  if (counts.train_supervised.empty() || fullest.supervised <= 1)
    fullest.supervised = supervised_bound(plan, plan.train, fullest.tokens);
  know_pairs(fullest, plan.train);
  return fullest;
}

// Splits like core/train does for evaluations and reference passes: atoms in order, as many as fit.
Fullest fullest_evaluation(const Schedule& plan, const MicroBatch& micro_batch, const ExampleCounts& counts) {
  Fullest fullest{0, 0, 0, false};
  // Old log-probabilities of a rollout are computed in the micro-batches that train on it.
  if (draws_completions(plan.job.objective.type())) return fullest_drawn(plan, micro_batch);
  const int64_t budget = evaluation_tokens(micro_batch);
  if (plan.eval.examples > 0) visit_in_order(fullest, plan, budget, plan.eval, counts.eval, counts.eval_supervised);
  if (plan.job.objective.as<Referenced>().reference_cache.value_or(false))
    visit_in_order(fullest, plan, budget, plan.train, counts.train, counts.train_supervised);
  if (objective_of(plan.job.objective.type()).coupling == Coupling::answer) visit_mismatches(fullest, plan, budget, counts);
  return fullest;
}

}  // namespace forge
