#include "cli/run_decision.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/config/field.h"
#include "core/config/job_json.h"

namespace forge {
namespace {

// Sections that may change freely between two parts of one run.
constexpr const char* kFreeSections[] = {"log.", "checkpoint.", "eval."};
// The limits of a run: --extend moves them.
constexpr const char* kLimits[] = {"train.epochs", "train.max_steps", "train.max_tokens", "train.max_time"};

bool is_limit(const std::string& key) {
  return std::find(std::begin(kLimits), std::end(kLimits), key) != std::end(kLimits);
}

bool is_free(const std::string& key) {
  return std::any_of(std::begin(kFreeSections), std::end(kFreeSections),
                     [&](const char* section) { return starts_with(key, section); });
}

// The slot of a dotted key in an object of objects.
Json& slot(Json& object, const std::string& dotted) {
  Json* place = &object;
  for (const std::string& part : split(dotted, '.')) place = &(*place)[part];
  return *place;
}

// Keys of `after` that differ from `before` among those that `belongs` takes, with their new values.
template <class Belongs>
Json changed_values(const Job& before, const Job& after, Belongs belongs) {
  Json changes = Json::object();
  for (const std::string& key : dotted_keys(job_fields())) {
    if (find_field(key)->kind == FieldKind::section || !belongs(key)) continue;
    Json value = value_of(after, key);
    if (value != value_of(before, key)) changes[key] = value;
  }
  return changes;
}

std::vector<std::string> keys_that_differ(const std::map<std::string, std::string>& before,
                                          const std::map<std::string, std::string>& after) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : after)
    if (!before.contains(key) || before.at(key) != value) keys.push_back(key);
  for (const auto& [key, value] : before)
    if (!after.contains(key)) keys.push_back(key);
  return keys;
}

[[noreturn]] void refuse(const std::string& folder, const Plan& before, const Plan& wanted,
                         const std::vector<std::string>& keys) {
  std::string message = folder + ": holds another job of this name";
  for (const std::string& key : keys) {
    auto text = [&](const Plan& plan) {
      return plan.identity.contains(key) ? plan.identity.at(key) : "not set";
    };
    message += "\n  " + key + ": there " + text(before) + ", here " + text(wanted);
  }
  bool only_limits = std::all_of(keys.begin(), keys.end(), is_limit);
  throw Error(ErrorKind::job, message)
      .hint(only_limits ? "use --extend to continue with the new limit, --fresh to start over, or give the "
                          "job another name"
                        : "use --fresh to discard that run and start over, or give the job another name");
}

// What the run was started on, where it is another machine than this.
std::string other_machine(const Device& before, const Device& now) {
  if (before.cuda != now.cuda || before.name() != now.name()) return before.name() + " → " + now.name();
  if (before.cpu.isa != now.cpu.isa) return before.name() + " with other instruction sets";
  return "";
}

std::string progress_of(const RunState& state, const Plan& plan) {
  std::string total = plan.steps > 0 ? " of " + format_count(plan.steps) : "";
  if (!state.last_step) return "from its beginning: it has no checkpoint yet";
  return "from step " + format_count(*state.last_step) + total;
}

}  // namespace

Json amended_plan(const RunState& state) {
  Json plan = state.plan;
  for (const Json& amendment : state.amendments) {
    if (amendment.contains("plan")) plan = amendment["plan"];
    if (amendment.contains("identity")) plan["identity"].update(amendment["identity"]);
    if (!amendment.contains("changes")) continue;
    for (const auto& [key, value] : amendment["changes"].items()) {
      if (key == "steps")
        plan["steps"] = value;
      else
        slot(plan["job"], key) = value;
    }
  }
  return plan;
}

Decision decide(const Plan& wanted, const RunState& state, const std::string& folder, bool extend) {
  Decision decision{.plan = wanted};
  if (!state.exists) {
    decision.sentence = "starting " + folder;
    return decision;
  }
  Plan before = plan_from_json(amended_plan(state), folder + "/plan.json");
  std::vector<std::string> keys = keys_that_differ(before.identity, wanted.identity);
  bool extends = extend && !keys.empty() && std::all_of(keys.begin(), keys.end(), is_limit);
  if (!keys.empty() && !state.stepped) {
    decision.sentence = "starting " + folder + ", in place of another job that did no step";
    return decision;
  }
  if (!keys.empty() && !extends) refuse(folder, before, wanted, keys);
  if (state.finished && !extends) {
    decision.action = RunAction::finished;
    decision.plan = before;
    decision.sentence = folder + " is finished: " + format_count(before.steps) + " steps";
    return decision;
  }
  if (extends && wanted.steps > 0 && state.last_step && wanted.steps < *state.last_step)
    throw Error(ErrorKind::job, folder + ": has done " + format_count(*state.last_step) +
                                    " steps already, the new limit is " + format_count(wanted.steps))
        .hint("raise the limit, or use --fresh to start over");

  decision.action = RunAction::resume;
  std::string machine = other_machine(before.device, wanted.device);
  bool plan_again = !machine.empty() || before.execution != wanted.execution;
  Json changes = changed_values(before.job, wanted.job, is_free);
  if (extends) {
    changes.update(changed_values(before.job, wanted.job, is_limit));
    changes["steps"] = wanted.steps;
  }
  if (plan_again) {
    Json amendment{{"kind", "replan"},
                   {"reason", machine.empty() ? "other execution settings" : "another machine"}};
    amendment["changes"] = {{"steps", wanted.steps}};
    amendment["plan"] = to_json(wanted);
    decision.amendments.push_back(amendment);
    if (!machine.empty()) decision.notes.push_back("the machine differs: " + machine);
    for (const std::string& key : keys_that_differ(before.execution, wanted.execution))
      decision.notes.push_back("planned again: " + key + " differs");
    decision.notes.push_back("from here on the run equals an uninterrupted one to rounding, not to the bit");
  } else {
    if (!changes.empty())
      decision.amendments.push_back({{"kind", extends ? "extend" : "settings"},
                                     {"changes", changes},
                                     {"reason", extends ? "--extend" : "the job file changed"}});
    // From now on the run is the one with the new limit.
    for (const std::string& key : keys) decision.amendments.back()["identity"][key] = wanted.identity.at(key);
    RunState after = state;
    after.amendments.insert(after.amendments.end(), decision.amendments.begin(), decision.amendments.end());
    decision.plan = plan_from_json(amended_plan(after), folder + "/plan.json");
    // The same content by its hash, wherever the cache lies now.
    decision.plan.train = wanted.train;
    decision.plan.eval = wanted.eval;
  }
  decision.sentence = "continuing " + folder + " " + progress_of(state, decision.plan);
  return decision;
}

}  // namespace forge
