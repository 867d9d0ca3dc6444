#pragma once
// Decides what `forge run` does, from the plan that it wants and the run folder that it finds.
//
//   Decision decision = decide(wanted, inspect_run(folder), {.extend = true});
//   decision.sentence    // "continuing runs/devil from step 200 of 339"
//
// A run that has done no step is replaced by another job of its name: there is nothing in it to
// continue from. A run whose metrics tell of a step is kept, even without a checkpoint.
#include <map>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/run/run_folder.h"

namespace forge {

enum class RunAction { start, resume, finished };

struct Decision {
  RunAction action = RunAction::start;  // also where a run without a finished step is replaced
  Plan plan;                       // to execute
  std::vector<Amendment> amendments;  // to append to the run folder first
  std::string sentence;            // for the user
  std::vector<std::string> notes;  // other notes: a different machine
};

// Decides between the plan and the folder's state; `folder` is for messages. Throws Error(job)
// naming the keys that make `wanted` another job than the folder's; with `extend` the limits of the
// run (epochs, max_steps, max_tokens, max_time) may differ.
Decision decide(const Plan& wanted, const RunState& state, const std::string& folder, bool extend);

// Returns the things besides the job that decide the last bits of a run's results, as entries of
// Plan::execution: processor, LibTorch, engine, and the variables that choose instruction sets,
// those that are set. A run that is continued under other arithmetic equals an uninterrupted one to
// rounding only.
//
//   plan.execution["arithmetic.processor"]               // "AMD EPYC 7B13"
//   plan.execution["arithmetic.ATEN_CPU_CAPABILITY"]     // "avx2"
std::map<std::string, std::string> arithmetic_of(const Plan& plan);

// Restores secrets, which a run's files only name, in its plan and amendments from the environment.
// Throws Error(environment) naming the variables that are not set.
void unseal(RunState& state, const std::string& folder);

}  // namespace forge
