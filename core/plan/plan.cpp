#include "core/plan/plan.h"

#include <algorithm>

#include "core/data/batch/order.h"
#include "core/job/job_json.h"
#include "core/learn/objective/objective.h"
#include "core/plan/contradictions.h"
#include "core/plan/fit/fit.h"
#include "core/plan/resolve.h"
#include "core/plan/stages/judge_plan.h"
#include "core/plan/stages/objective_plan.h"
#include "core/plan/stages/rollout_plan.h"
#include "core/plan/stages/step_choice.h"
#include "core/plan/warnings.h"

namespace forge {

Plan make_plan(const PlanInput& input) {
  Plan plan{{{{{{input}}}}}};
  plan.profile = input.profile.name;
  plan.profile_rule = input.profile.rule;

  refuse_contradictions(plan);
  fill_identity(plan, input.job);
  resolve_device(plan, input);
  resolve_precision(plan, input.profile, input.known_rates());
  resolve_residual(plan, input.profile);
  resolve_threads(plan);
  const Provider& provider = resolve_provider(plan, input.providers);
  choose_step(plan);
  require_judges(plan, provider);
  resolve_limits(plan);
  resolve_objective(plan);
  resolve_global_batch(plan);
  resolve_optimizer(plan);
  const bool draws = draws_completions(plan.job.objective.type);
  Parts first_epoch;
  if (!input.train_lengths.empty())
    first_epoch = draws ? prompt_batches(input.train_lengths, plan.job, 0) : epoch_steps(input.train_lengths, plan.job, 0);
  if (draws) resolve_rollout(plan, input, provider);
  resolve_steps(plan, input.train_lengths, first_epoch);
  const auto plain = std::find_if(input.providers.begin(), input.providers.end(), [](const Provider& p) { return p.name == std::string("reference"); });
  resolve_memory(plan, input.profile, provider, plain == input.providers.end() ? nullptr : &*plain,
                 {input.train_lengths, input.train_supervised, input.eval_lengths, input.eval_supervised});
  plan.attention = attention_of(plan, provider, *plan.job.train.micro_batch_tokens);
  if (!plan.train.estimated && !draws) measure_packing(plan, input.train_lengths, first_epoch);
  plan.time = planned_time(plan, input.train_lengths, input.known_rates());
  if (draws && plan.time.step_seconds > 0) plan.rollout.sample_seconds = sample_seconds(plan, input.known_rates());
  resolve_disk(plan);
  add_warnings(plan, input);
  return plan;
}

using Stated = std::map<std::string, std::string>;

// Returns keys and values without those at their defaults, so that a plan of an older forge, which
// lacks newer keys, compares equal.
static Stated beside_defaults(const Stated& all) {
  Stated said;
  for (const auto& [key, text] : all) {
    const Json value = Json::parse(text, nullptr, false);  // a hash is no JSON
    const Json rest = value.is_discarded() ? Json(text) : beside_default(key, value);
    if (!rest.is_null()) said[key] = dump_json(rest);
  }
  return said;
}

std::vector<std::string> differing_keys(const Stated& before, const Stated& after) {
  const Stated there = beside_defaults(before), here = beside_defaults(after);
  Stated all = there;
  all.insert(here.begin(), here.end());
  std::vector<std::string> keys;
  for (const auto& [key, unused] : all)
    if (!there.contains(key) || !here.contains(key) || there.at(key) != here.at(key)) keys.push_back(key);
  return keys;
}

static bool decides(const Plan& plan, const std::string& name) {
  return std::any_of(plan.start_files.begin(), plan.start_files.end(),
                     [&](const StartFile& file) { return file.name == name && file.decides; });
}

std::vector<std::string> identity_differences(const Plan& old_plan, const Plan& new_plan) {
  // For plans that do not list the files, the hash of the header, under "model", stands in for
  // them.
  const bool files_known = !old_plan.start_files.empty() && !new_plan.start_files.empty();
  std::vector<std::string> keys = differing_keys(old_plan.identity, new_plan.identity);
  if (!files_known) return keys;
  std::erase(keys, "model");
  for (const std::string& name : changed_files(old_plan.start_files, new_plan.start_files))
    if (decides(old_plan, name) || decides(new_plan, name)) keys.push_back(name);
  return keys;
}

}  // namespace forge
