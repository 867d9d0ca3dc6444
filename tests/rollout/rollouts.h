#pragma once
// Makes rollouts of given lengths and rewards, and objectives in the form of a job file.
#include "core/job/load.h"
#include "core/learn/rollout/policy_step.h"
#include "tests/test.h"

namespace forge {

// Returns a job with this text after "objective: ".
inline Job job_with(const std::string& objective, const std::string& more = "") {
  const TemporaryFolder folder;
  const std::string path = folder.write("job.yaml",
                                        "model: {path: m}\nadapter: lora\ndata: {train: rows.jsonl}\nrollout: {max_new_tokens: 8}\n"
                                        "rewards: [{type: exact}]\nobjective: " + objective + "\n" + more);
  Job job = load_job(path).job;
  return job;
}
inline ObjectiveConfig objective_with(const std::string& text) { return job_with(text).objective; }

// Returns groups of completions with these lengths and rewards, in order.
inline Rollout rollout_of(const std::vector<std::vector<int64_t>>& lengths, const std::vector<std::vector<double>>& rewards) {
  Rollout rollout;
  for (size_t g = 0; g < lengths.size(); ++g)
    for (size_t i = 0; i < lengths[g].size(); ++i) {
      Completion c{.prompt = static_cast<int64_t>(g), .group = static_cast<int64_t>(g), .sample = static_cast<int64_t>(i)};
      c.ids.assign(static_cast<size_t>(lengths[g][i]), 7);
      c.sampler_logps.assign(c.ids.size(), -1);
      c.text_tokens = lengths[g][i];
      c.reward = rewards[g][i];
      rollout.completions.push_back(std::move(c));
    }
  return rollout;
}

}  // namespace forge
