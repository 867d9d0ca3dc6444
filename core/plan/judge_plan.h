#pragma once
// Reward models that score what a policy draws: rewards of type model. This file reads them from
// the disk and adds them to a plan.
#include "core/model/families/adapter_sites.h"
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

// Reads the reward model in a folder as rewards[].path names it: a model with a score head, or a
// PEFT adapter with one whose base is on this machine. Throws Error(environment) for any other.
JudgeModel read_judge(const std::string& path);
// Reads the models of all rewards of type model, in order.
std::vector<JudgeModel> judges_of(const Job& job);

// Throws KeyError(job) if the plan's provider cannot compute one of them.
void require_judges(const Plan& plan, const Provider& provider);

// Returns the tokens of the longest text that a reward model is asked about; its own tokenizer may
// need more tokens than the policy's.
int64_t longest_judged(const Job& job, const ModelSpec& judge);

// Returns the lines of the judge's weights, which are held beside all else. judge_shape() describes
// one batch of it, which shares the memory of the policy's step.
std::vector<MemoryLine> judge_fixed_lines(const Plan& plan, const JudgeModel& judge);
ActivationShape judge_shape(const Plan& plan, const JudgeModel& judge);

}  // namespace forge
