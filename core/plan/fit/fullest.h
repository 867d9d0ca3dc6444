#pragma once
// The fullest micro-batches of a run, which its memory is planned for.
#include <cstdint>
#include <vector>

#include "core/data/batch/order.h"
#include "core/plan/stages/schedule.h"

namespace forge {

// Tokens and supervised tokens of each example of both splits; empty if only estimated.
struct ExampleCounts {
  std::vector<int64_t> train, train_supervised, eval, eval_supervised;
};

constexpr int64_t kManyTexts = INT64_MAX;

// The fullest micro-batch that a run will see: the maximum of each member, not necessarily of the
// same micro-batch.
struct Fullest {
  int64_t tokens = 1, supervised = 1, longest = 1;
  bool several = true;  // true if one may hold more than one example
  int64_t texts = 1;    // the most in one; kManyTexts: unknown
  int64_t source = 0, longest_source = 0, longest_answer = 0;  // of an encoder-decoder's: tokens
  GroupSizes groups;
};

// Returns the maxima over the training micro-batches of such a size. Exact if every example's
// length is known and the steps are few enough to be laid out; else a bound.
Fullest fullest_training(const Schedule& plan, const MicroBatch& micro_batch, const ExampleCounts& counts);
// Returns the maxima over the batches of an evaluation, and of what objective.reference_cache
// keeps. `tokens` is 0 if there is neither.
Fullest fullest_evaluation(const Schedule& plan, const MicroBatch& micro_batch, const ExampleCounts& counts);

// Returns the tokens of the longest atom, which a micro-batch cannot divide: an example, or a pair;
// at least 1.
int64_t longest_of(const Schedule& plan);

}  // namespace forge
