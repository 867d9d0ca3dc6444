#pragma once
// Reward models that score what a policy draws: rewards of type model. What they are on the disk, and what they add to a plan.
#include "core/families/adapter_sites.h"
#include "core/plan/plan.h"
#include "core/plan/provider.h"

namespace forge {

struct JudgeModel {
  std::string reward;  // its name
  std::string model, adapter;  // folders; no adapter: the model gives scores itself
  ModelSpec spec;              // with a score head
  AdapterConfig config;        // of the adapter
  std::vector<AdapterSite> sites;
};

// Of a folder as rewards[].path names it: a model with a score head, or a PEFT adapter with one whose base is on this machine.
// Throws Error(environment) for any other.
JudgeModel read_judge(const std::string& path);
// Of all rewards of type model, in order.
std::vector<JudgeModel> judges_of(const Job& job);

// Throws KeyError(job) where the plan's provider cannot compute one of them.
void require_judges(const Plan& plan, const Provider& provider);

// Tokens of the longest text that a reward model is asked about; its own tokenizer may need more of them than the policy's.
int64_t longest_judged(const Job& job, const ModelSpec& judge);

// Weights beside all else; and one batch, which takes the memory of the policy's step in turn.
std::vector<MemoryLine> judge_fixed_lines(const Plan& plan, const JudgeModel& judge);
ActivationShape judge_shape(const Plan& plan, const JudgeModel& judge);

}  // namespace forge
