#pragma once
// Completions that a policy drew, with what they were worth: the data of the steps that train on
// them.
//
// A rollout is drawn with the weights of one moment. Its completions are ordered by group (one
// prompt each) and sample. Its file in the run folder, rollouts/rollout-000012.jsonl, has a line
// for each. People read it (forge rollouts). After a run was killed, everything that would not come
// the same a second time is taken from it (recorded.h).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/io/json.h"

namespace forge {

struct RewardPart {
  std::optional<double> score;
  std::string reason;
};

struct IdSpan {
  int64_t begin = 0, end = 0;
  bool operator==(const IdSpan&) const = default;
};

struct Completion {
  int64_t prompt = 0;               // number of the example in its split
  int64_t draw = 0, place = 0;      // the batch of prompts that it was drawn with, and the prompt's place there
  int64_t group = 0, sample = 0;    // group's number in the rollout, sample's in the group
  bool kept = true;                 // it is in the rollout; discarded ones are only in its file
  // Tokens after the prompt: drawn tokens, with the end token of each turn that ended by one, and
  // the tools' answers between.
  std::vector<int32_t> ids;
  std::vector<IdSpan> inserted;        // spans of `ids` that were not drawn, in order
  // Log-probability of each drawn id, by what drew it, at the temperature of the draws.
  std::vector<float> sampler_logps;
  int64_t turns = 0;                 // number of the model's turns
  int64_t text_begin = 0;            // begin of the last turn in `ids`; that turn is scored
  int64_t text_tokens = 0;           // tokens of the last turn, without end token and stop sequence
  bool truncated = false;            // it ended at a limit
  std::string failure;               // why a tool has no answer; then it is unscored
  std::string adapter;               // with a server: the name of the weights that drew it
  // Answer of the program.
  std::string prompt_text, text, transcript;
  std::vector<RewardPart> parts;  // by reward of the job
  std::optional<double> reward;   // nothing: unscored
  std::string unscored_reason;
  // Numbers that training derives from it.
  double advantage = 0;                        // under ppo the mean over its tokens
  bool counts = false;                         // it counts in the divisor
  // Log-probabilities of each drawn id, by the trainer; empty if not needed.
  std::vector<float> old_logps, base_logps;
  // Log-probabilities with the weights that drew; empty if those are the weights of old_logps.
  std::vector<float> drawn_logps;
  // For each drawn id under ppo: the value network's prediction before it, its advantage over that,
  // and what the network learns.
  std::vector<float> values;
  std::vector<double> advantages, returns;

  // Returns the number of drawn tokens; these are the ones that are trained.
  int64_t tokens() const { return static_cast<int64_t>(sampler_logps.size()); }
};

// Time and memory that drawing took.
struct DrawCost {
  double seconds = 0;
  double wait_seconds = 0;    // of the trainer; what was drawn ahead may be there
  int64_t prompt_tokens = 0;  // that were read
  int64_t slots = 0;          // completions at once; 0: a server knows
  int64_t cache_bytes = 0;    // the most that keys and values took
  int64_t guessed = 0, guessed_right = 0;  // tokens looked up
};

struct Rollout {
  int64_t number = 0;  // from 0
  int64_t drawn = 0;   // batches of prompts that were drawn up to its end
  int64_t staleness = 0;  // rollouts that were trained since the weights that drew it
  int64_t rounds = 1, discarded = 0;  // of drawing; groups that were not kept
  int64_t groups = 0, flat_groups = 0, dropped_groups = 0;  // as Advantages counts them
  std::vector<Completion> completions;
  DrawCost cost;
  double score_seconds = 0, old_seconds = 0, base_seconds = 0;

  int64_t groups_drawn() const { return completions.empty() ? 0 : completions.back().group + 1; }
};

// Converts exactly: a float goes through a double. For checkpoints of a rollout that is partly
// trained.
void to_json(Json& json, const Rollout& rollout);
// Throws MemberFault (core/lib/io/members.h).
void from_json(const Json& json, Rollout& rollout);

// Returns one line of a rollout's file, with names of rewards as the job has them.
Json rollout_line(const Completion& completion, const std::vector<RewardConfig>& rewards);
// Returns what such a line states as its "hash": of everything else in it.
std::string hash_of_line(const Json& line);

// Returns "RUN/rollouts/rollout-000012.jsonl".
std::string rollout_path(const std::string& run_folder, int64_t number);

}  // namespace forge
