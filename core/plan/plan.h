#pragma once
// The plan: every decision of a run, made once, each with its origin and reason. The engine
// executes it; nothing is decided after it but amendments.
//
//   Plan plan = make_plan(input);
//   plan.job.train.precision            // resolved
//   plan.origins["train.precision"]     // {OriginKind::profile, "profile ampere", "…"}
//   write_file_durably(path, to_json(plan).dump(2));
#include <string>
#include <vector>

#include "core/plan/disk.h"
#include "core/plan/fit/fitted.h"
#include "core/plan/identity.h"
#include "core/plan/stages/plan_input.h"
#include "core/plan/step_time.h"

namespace forge {

// Fill of steps and micro-batches, over the first steps of the first epoch. Nothing is padded
// either way: a micro-batch that is half full takes half the time, so this tells how few launches
// the tokens take.
struct PackingFacts {
  double micro_batches_per_step = 0;  // 0: not known, the data are only estimated
  double micro_batch_fill = 0;        // tokens over train.micro_batch_tokens
  double step_fill = 0;               // tokens over train.global_batch_tokens; 0 without it
};

struct Plan : Fitted, Identity, DiskUse {
  std::vector<AttentionUse> attention;  // by kernel
  PackingFacts packing;
  PlannedTime time;
  std::vector<std::string> warnings;
};

// Makes the plan; a pure function. Throws Error(job) for settings that contradict each other or the
// model, Error(fit) "needs …, … available" naming the largest line and the cheapest remedy that
// would fit.
Plan make_plan(const PlanInput& input);

// Write and read a plan; the round trip is exact. `parameters`, `memory` and `profile` are also
// what `forge plan --json` prints. "hash" is of all other members. Reading throws
// Error(environment) naming the first member that is missing, of another type or out of its range.
Json to_json(const Plan& plan);
Plan plan_from_json(const Json& json, const std::string& name = "plan.json");
// Sets the hash again: to_json does, and so must any caller that changes its result.
void set_plan_hash(Json& plan);
// Takes "hash" out of a plan that was read. Throws Error(environment) if it is not the hash of the
// rest: somebody edited the file.
void take_plan_hash(Json& plan, const std::string& name);
// Returns the hash that a plan's JSON states; empty without one.
std::string stated_plan_hash(const Json& plan);
// Returns the JSON Schema 2020-12 of a plan's JSON: schemas/plan.schema.json.
Json plan_schema();

}  // namespace forge
