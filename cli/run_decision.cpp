#include "cli/run_decision.h"

#include <algorithm>
#include <cstdlib>

#include "cli/engine_location.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/secrets.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr std::string_view kArithmetic = "arithmetic.";

// Variables that LibTorch, MKL, oneDNN, cuBLAS and glibc read. Thread counts are left out: the plan
// states them.
constexpr const char* kVariables[] = {"ATEN_CPU_CAPABILITY",
                                      "FORGE_CPU",
                                      "MKL_CBWR",
                                      "MKL_DEBUG_CPU_TYPE",
                                      "MKL_ENABLE_INSTRUCTIONS",
                                      "MKL_THREADING_LAYER",
                                      "ONEDNN_MAX_CPU_ISA",
                                      "ONEDNN_CPU_ISA_HINTS",
                                      "ONEDNN_DEFAULT_FPMATH_MODE",
                                      "DNNL_MAX_CPU_ISA",
                                      "DNNL_CPU_ISA_HINTS",
                                      "DNNL_DEFAULT_FPMATH_MODE",
                                      "GLIBC_TUNABLES",
                                      "CUBLAS_WORKSPACE_CONFIG",
                                      "NVIDIA_TF32_OVERRIDE",
                                      "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"};

// True for the limits that --extend may change.
bool is_limit(const std::string& key) {
  const Field* field = find_field(key);
  return field && field->role == KeyRole::limit;
}

// Returns the slot of a dotted key in an object of objects.
Json& slot(Json& object, const std::string& dotted) {
  Json* place = &object;
  for (const std::string& part : split(dotted, '.')) place = &(*place)[part];
  return *place;
}

// Returns the keys of this role that differ, with their new values.
Json changed_values(const Job& before, const Job& after, KeyRole role) {
  Json changes = Json::object();
  for (const std::string& key : keys_of_role(role)) {
    Json value = value_of(after, key);
    if (value != value_of(before, key)) changes[key] = value;
  }
  return changes;
}

bool has_file(const Plan& plan, const std::string& name) {
  return std::ranges::count(plan.start_files, name, &StartFile::name) > 0;
}

// Returns "models/llama/config.json changed since the run began".
std::string changed_file_text(const Plan& before, const Plan& wanted, const std::string& name) {
  const char* what = !has_file(before, name)   ? " was not there when the run began"
                     : !has_file(wanted, name) ? " has disappeared since the run started"
                                               : " changed since the run began";
  return path_of_start_file(wanted.job, name) + what;
}

std::string there_and_here(const std::string& key, const std::string& there, const std::string& here) {
  return "\n  " + key + ": there " + there + ", here " + here;
}

std::vector<std::string> paths_of(const Job& job) {
  std::vector<std::string> paths;
  for (const DataSource& source : job.data.train) paths.push_back(source.path);
  return paths;
}

// Describes the job keys that change the training data; if there are none, says that the files
// themselves have changed.
std::string data_difference(const Job& before, const Job& wanted) {
  std::string text;
  const std::vector<std::string> there = paths_of(before), here = paths_of(wanted);
  if (there != here) text += there_and_here("data.train", join(there, ", "), join(here, ", "));
  const Json changes = changed_values(before, wanted, KeyRole::content);
  for (const auto& [key, value] : changes.items())
    if (starts_with(key, "data.") && key != "data.train")
      text += there_and_here(key, dump_json(value_of(before, key)), dump_json(value));
  if (!text.empty()) return text;
  if (value_of(before, "data.train") != value_of(wanted, "data.train"))
    return "\n  data.train: other settings of " + join(here, ", ");
  return "\n  data.train: " + join(here, ", ") + (here.size() == 1 ? " has" : ": one of them has") +
         " changed since the run began";
}

std::string value_or_none(const std::map<std::string, std::string>& values, const std::string& key) {
  return values.contains(key) ? values.at(key) : "not set";
}

// Describes a difference by the thing that was hashed, since hashes mean nothing to people.
std::string difference(const std::string& key, const Plan& before, const Plan& wanted) {
  if (key == "data.train") return data_difference(before.job, wanted.job);
  const std::vector<std::string> files = changed_files(before.start_files, wanted.start_files);
  if (std::ranges::count(files, key) > 0) return "\n  " + changed_file_text(before, wanted, key);
  return there_and_here(key, value_or_none(before.identity, key), value_or_none(wanted.identity, key));
}

bool past(const RunState& state, const Plan& wanted) {
  return wanted.steps > 0 && state.last_step && wanted.steps < *state.last_step;
}

// Returns every way out that would work: --extend never goes back, and changes nothing but limits.
std::string way_out(const RunState& state, const Plan& before, const Plan& wanted,
                    const std::vector<std::string>& keys, bool only_files, bool extend) {
  const bool only_limits = std::all_of(keys.begin(), keys.end(), is_limit);
  const std::string over = "--fresh to discard that run and start over, or give the job another name";
  if (only_limits && past(state, wanted))
    return "the run has done " + format_count(*state.last_step) + " of " + format_count(before.steps) +
           " steps: write that run's limit to keep it, use " + over;
  if (only_files) return "put back the files that it began with to continue, or use " + over;
  if (only_limits) return "use --extend to continue with the new limit, " + over;
  return extend ? "--extend changes only " + join(keys_of_role(KeyRole::limit), ", ") + "; use " + over
                : "use " + over;
}

[[noreturn]] void refuse(const std::string& folder, const RunState& state, const Plan& before,
                         const Plan& wanted, const std::vector<std::string>& keys, bool extend) {
  const std::vector<std::string> files = changed_files(before.start_files, wanted.start_files);
  const auto is_file = [&](const std::string& key) { return std::ranges::count(files, key) > 0; };
  const bool only_files = std::ranges::all_of(keys, is_file);
  std::string message =
      folder + (only_files ? ": was started from other files" : ": holds another job of this name");
  for (const std::string& key : keys) message += difference(key, before, wanted);
  throw Error(ErrorKind::job, message).hint(way_out(state, before, wanted, keys, only_files, extend));
}

// Returns the limit that ended a run: "train.max_steps: 3".
std::string limit_text(const Plan& plan) {
  std::vector<std::string> limits;
  for (const std::string& key : keys_of_role(KeyRole::limit))
    if (const Json value = value_of(plan.job, key); !value.is_null())
      limits.push_back(key + ": " + dump_json(value));
  return join(limits, ", ");
}

// Returns the device that the run was started on and this one, if they differ. Results depend on
// the processor.
std::string other_machine(const Device& before, const Device& now) {
  const bool same = before.cuda == now.cuda && (!now.cuda || before.name() == now.name());
  return same ? "" : before.name() + " → " + now.name();
}

// Returns "train.threads was 1, is 2".
std::string difference_text(const Plan& before, const Plan& wanted, const std::string& key) {
  const std::string what = starts_with(key, kArithmetic)
                               ? "the arithmetic differs: " + key.substr(kArithmetic.size())
                               : "planned again: " + key;
  return what + " was " + value_or_none(before.execution, key) + ", is " +
         value_or_none(wanted.execution, key);
}

std::string progress_of(const RunState& state, const Plan& plan) {
  std::string total = plan.steps > 0 ? " of " + format_count(plan.steps) : "";
  if (!state.last_step) return "from its beginning: it has no checkpoint yet";
  return "from step " + format_count(*state.last_step) + total;
}

// Decides for a finished run whose result was removed: continuing from its last checkpoint, at the
// last step, just exports again.
Decision decide_to_export(const Plan& wanted, const Plan& before, const RunState& state,
                          const std::string& folder) {
  const std::string lost = folder + " is finished, but its " + state.result + "/ is incomplete";
  if (!state.last_step)
    throw Error(ErrorKind::environment, lost + " and there is no checkpoint to write it from")
        .hint("use --fresh to train it again");
  // The plan keeps the settings that the run finished with, if this machine has the device.
  Decision decision{.action = RunAction::resume, .plan = before};
  if (!other_machine(before.device, wanted.device).empty()) decision.plan = wanted;
  decision.plan.train = wanted.train;
  decision.plan.eval = wanted.eval;
  decision.sentence =
      lost + ": writing it again from the checkpoint of step " + format_count(*state.last_step);
  return decision;
}

// Returns plan.json with its amendments applied, as JSON.
Json amended_plan(const RunState& state) {
  Json plan = state.plan;
  for (const Amendment& amendment : state.amendments) {
    if (amendment.plan) plan = *amendment.plan;
    for (const auto& [key, value] : amendment.identity) plan["identity"][key] = value;
    for (const auto& [key, value] : amendment.changes.items()) {
      if (key == "steps")
        plan["steps"] = value;
      else
        slot(plan["job"], key) = value;
    }
  }
  return plan;
}

Decision decide_finished(const Plan& before, const RunState& state, const std::string& folder, bool extend) {
  const int64_t steps = state.finished_step.value_or(before.steps);
  Decision decision{.action = RunAction::finished, .plan = before};
  decision.sentence = folder + " is finished: " + format_count(steps) + (steps == 1 ? " step" : " steps");
  if (extend)
    decision.sentence += "; to continue it, raise its limit and use --extend (" + limit_text(before) + ")";
  return decision;
}

// Adds that the rest of the run follows another plan.
void plan_anew(const Plan& before, const Plan& wanted, const std::string& machine, Decision& decision) {
  decision.amendments.push_back({.kind = AmendmentKind::replan,
                                 .reason = machine.empty() ? "other execution settings" : "another machine",
                                 .changes = {{"steps", wanted.steps}},
                                 .plan = to_json(wanted)});
  if (!machine.empty()) decision.notes.push_back("the machine differs: " + machine);
  for (const std::string& key : differing_keys(before.execution, wanted.execution))
    decision.notes.push_back(difference_text(before, wanted, key));
  decision.notes.push_back("from here on the run equals an uninterrupted one to rounding, not to the bit");
}

}  // namespace

std::map<std::string, std::string> arithmetic_of(const Plan& plan) {
  std::map<std::string, std::string> arithmetic;
  const auto record = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) arithmetic[std::string(kArithmetic) + name] = value;
  };
  record("processor", plan.device.cpu.name);
  record("instruction_sets", join(plan.device.cpu.isa, " "));
  record("engine", plan.engine);
  record("libtorch", search_engine(engine_file(plan.engine)).location.torch_version);
  for (const char* variable : kVariables)
    if (const char* value = std::getenv(variable)) record(variable, value);
  return arithmetic;
}

void unseal(RunState& state, const std::string& folder) {
  const RunPaths paths{folder};
  state.plan = unseal_secrets(state.plan, process_environment(), paths.plan());
  for (Amendment& amendment : state.amendments)
    amendment =
        amendment_from_json(unseal_secrets(to_json(amendment), process_environment(), paths.amendments()));
}

Decision decide(const Plan& wanted, const RunState& state, const std::string& folder, bool extend) {
  Decision decision{.plan = wanted};
  if (!state.exists) {
    decision.sentence = "starting " + folder;
    return decision;
  }
  Plan before = plan_from_json(amended_plan(state), folder + "/plan.json");
  std::vector<std::string> keys = identity_differences(before, wanted);
  bool extends = extend && !keys.empty() && std::all_of(keys.begin(), keys.end(), is_limit);
  if (!keys.empty() && !state.stepped) {
    decision.sentence = "starting " + folder + ", in place of another job that had done no step";
    return decision;
  }
  if (!keys.empty() && !extends) refuse(folder, state, before, wanted, keys, extend);
  if (state.finished && !extends) {
    if (!state.result_whole) return decide_to_export(wanted, before, state, folder);
    return decide_finished(before, state, folder, extend);
  }
  if (extends && past(state, wanted))
    throw Error(ErrorKind::job, folder + ": has done " + format_count(*state.last_step) +
                                    " steps already, the new limit is " + format_count(wanted.steps))
        .hint("raise the limit, or use --fresh to start over");

  decision.action = RunAction::resume;
  decision.notes = state.faults;
  if (!before.start_files.empty() && !wanted.start_files.empty())
    for (const std::string& name : changed_files(before.start_files, wanted.start_files))
      decision.notes.push_back(changed_file_text(before, wanted, name) + "; what is trained did not");
  std::string machine = other_machine(before.device, wanted.device);
  bool plan_again = !machine.empty() || !differing_keys(before.execution, wanted.execution).empty();
  Json changes = changed_values(before.job, wanted.job, KeyRole::settings);
  if (extends) {
    changes.update(changed_values(before.job, wanted.job, KeyRole::limit));
    changes["steps"] = wanted.steps;
  }
  if (plan_again) {
    plan_anew(before, wanted, machine, decision);
  } else {
    if (!changes.empty())
      decision.amendments.push_back({.kind = extends ? AmendmentKind::extend : AmendmentKind::settings,
                                     .reason = extends ? "--extend" : "the job file changed",
                                     .changes = changes});
    // From now on the new limit is part of the run's identity.
    for (const std::string& key : keys) decision.amendments.back().identity[key] = wanted.identity.at(key);
    RunState after = state;
    after.amendments.insert(after.amendments.end(), decision.amendments.begin(), decision.amendments.end());
    decision.plan = plan_from_json(amended_plan(after), folder + "/plan.json");
    // The content is the same by its hash; the cache may be at another path now.
    decision.plan.train = wanted.train;
    decision.plan.eval = wanted.eval;
  }
  decision.sentence = "continuing " + folder + " " + progress_of(state, decision.plan);
  return decision;
}

}  // namespace forge
