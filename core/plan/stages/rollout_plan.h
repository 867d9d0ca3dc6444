#pragma once
// Plans the drawing of completions: what ends them, how many are drawn at once, and what that takes
// of memory and time.
#include "core/plan/stages/batching.h"
#include "core/plan/stages/plan_input.h"

namespace forge {

// The drawing of completions; empty if the objective draws none.
struct RolloutPlan {
  std::vector<int32_t> stop_ids;                     // tokens that end a completion
  std::vector<std::vector<int32_t>> stop_sequences;  // of rollout.stop
  int64_t prompt_tokens = 0;                         // of prompts that are read at once
  std::string decoder;                               // provider of attention over the cache; empty: a server draws them
  int64_t waves = 0;                                 // of rollout.slots completions, for one rollout
  double sample_seconds = 0;                         // of a rollout whose completions are all as long as they may be; 0: not known
};

// Settled in the job: rollout.slots.
struct Rollouts : Batching {
  RolloutPlan rollout;
};

// Settles the drawing of completions; nothing if the objective draws none. Throws KeyError(job) for
// settings that the server or the provider cannot follow.
Rollouts plan_rollouts(const Batching& batching, const PlanInput& input, const Provider& provider);
// Returns the memory lines of drawing for training or for an evaluation, whichever takes more.
std::vector<MemoryLine> rollout_lines(const Rollouts& plan, const Provider& provider, const ActivationShape& shape);
// Returns RolloutPlan::sample_seconds, from rates of the products that training does too; 0 without
// rates.
double sample_seconds(const Rollouts& plan, const Rates* rates);

// Returns "32 of 64 completions at once, 2 waves; …".
std::string rollout_text(const Rollouts& plan);
// Returns "ratio is 1: …" and the like.
std::string updates_text(const Rollouts& plan);

}  // namespace forge
