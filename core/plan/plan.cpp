#include "core/plan/plan.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/data/order.h"
#include "core/plan/fit.h"
#include "core/plan/resolve.h"

namespace forge {

Plan make_plan(const PlanInput& input) {
  Plan plan;
  plan.job = input.job;
  plan.origins = input.origins;
  plan.device = input.device;
  plan.profile = input.profile.name;
  plan.profile_rule = input.profile.rule;
  plan.model = input.model;
  plan.model_hash = input.model_hash;
  plan.model_bytes = input.model_bytes;
  plan.train = input.train;
  plan.eval = input.eval;

  refuse_contradictions(plan);
  fill_identity(plan, input.job);
  resolve_device(plan);
  resolve_precision(plan, input.profile);
  resolve_threads(plan);
  resolve_provider(plan);
  resolve_limits(plan);
  resolve_global_batch(plan);
  const Parts first_epoch =
      input.train_lengths.empty() ? Parts{} : epoch_steps(input.train_lengths, plan.job, 0);
  resolve_steps(plan, input.train_lengths, first_epoch);
  resolve_memory(plan, input.profile,
                 {input.train_lengths, input.train_supervised, input.eval_lengths, input.eval_supervised});
  if (!plan.train.estimated) measure_packing(plan, input.train_lengths, first_epoch);
  resolve_disk(plan);
  add_warnings(plan, input);
  return plan;
}

int64_t evaluation_tokens(const Plan& plan) {
  return std::max<int64_t>(1, *plan.job.train.micro_batch_tokens);
}

std::string Plan::device_name() const { return device.cuda ? "cuda:" + std::to_string(device.index) : "cpu"; }

std::string Plan::identity_hash() const {
  Hasher hasher;
  for (const auto& [key, value] : identity) hasher.add(key).add(value);
  return hasher.hex();
}

std::vector<std::string> identity_differences(const Plan& old_plan, const Plan& new_plan) {
  std::vector<std::string> differences;
  std::map<std::string, std::string> keys = old_plan.identity;
  keys.insert(new_plan.identity.begin(), new_plan.identity.end());
  const auto value = [](const Plan& plan, const std::string& key) {
    const auto found = plan.identity.find(key);
    return found == plan.identity.end() ? std::string("(absent)") : found->second;
  };
  for (const auto& [key, unused] : keys)
    if (value(old_plan, key) != value(new_plan, key))
      differences.push_back(key + ": " + value(old_plan, key) + " → " + value(new_plan, key));
  return differences;
}

}  // namespace forge
