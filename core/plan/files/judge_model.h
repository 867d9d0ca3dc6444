#pragma once
// Reads the reward models that score what a policy draws: rewards of type model.
#include "core/job/job.h"
#include "core/model/families/adapter_sites.h"

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

// Returns the tokens of the longest text that a reward model is asked about; its own tokenizer may
// need more tokens than the policy's.
int64_t longest_judged(const Job& job, const ModelSpec& judge);

}  // namespace forge
