#pragma once
// The plan: every decision of a run, made once, each with its origin and reason. The engine
// executes it; nothing is decided after it but amendments.
//
//   Plan plan = make_plan(input);
//   plan.job.train.precision            // resolved
//   plan.origins["train.precision"]     // {OriginKind::profile, "profile ampere", "…"}
//   write_file_durably(path, to_json(plan).dump(2));
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/job/job.h"
#include "core/job/origin.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/modules.h"
#include "core/model/families/parameters.h"
#include "core/model/families/step.h"
#include "core/plan/files/start_files.h"
#include "core/plan/machine/device.h"
#include "core/plan/machine/profile.h"
#include "core/plan/memory/memory.h"
#include "core/plan/provider.h"
#include "core/plan/step_time.h"

namespace forge {

struct ValueOrigin {
  OriginKind kind = OriginKind::unset;
  std::string source;  // to be shown: "default", "job.yaml:9:9", "--set …", "profile hopper", "derived"
  std::string reason;  // for values that no person chose
};
using Origins = std::map<std::string, ValueOrigin>;  // by dotted key: "train.precision"

// Fill of steps and micro-batches, over the first steps of the first epoch. Nothing is padded
// either way: a micro-batch that is half full takes half the time, so this tells how few launches
// the tokens take.
struct PackingFacts {
  double micro_batches_per_step = 0;  // 0: not known, the data are only estimated
  double micro_batch_fill = 0;        // tokens over train.micro_batch_tokens
  double step_fill = 0;               // tokens over train.global_batch_tokens; 0 without it
};

// The maxima of a batch, which are not necessarily those of one batch.
struct BatchRoom {
  int64_t tokens = 0, targets = 0;  // targets: supervised positions
  int64_t source = 0;               // of the tokens, those that an encoder reads
};

// The drawing of completions; empty if the objective draws none.
struct RolloutPlan {
  std::vector<int32_t> stop_ids;                     // tokens that end a completion
  std::vector<std::vector<int32_t>> stop_sequences;  // of rollout.stop
  int64_t prompt_tokens = 0;                         // of prompts that are read at once
  std::string decoder;                               // provider that draws them; empty: a server does
  int64_t waves = 0;                                 // of rollout.slots completions, for one rollout
  double sample_seconds = 0;                         // of a rollout whose completions are all as long as they may be; 0: not known
};

struct Plan {
  Job job;  // every Auto holds a value
  Origins origins;
  Device device;
  std::string profile, profile_rule;
  std::string engine;                   // cpu | cuda13 | none: the engine that runs it
  std::string provider;                 // fused | reference
  Precision storage = Precision::fp32;  // of frozen weights that are not quantised
  std::vector<AttentionUse> attention;  // by kernel
  LossScaling loss_scaling = LossScaling::none;
  StepChoice step;  // the lists that are run, as the engine takes them (core/plan/step_choice.h)
  ModelSpec model;
  std::string model_hash;   // TensorFile::header_hash
  int64_t model_bytes = 0;  // TensorFile::file_bytes
  std::vector<StartFile> start_files;  // empty where nothing is run: `forge plan` reads no weights
  DataSummary train;
  DataSummary eval;  // examples 0: nothing to evaluate
  PackingFacts packing;
  ParameterCounts parameters;
  std::vector<TargetMatch> targets;  // adapted linears by target
  std::vector<MemoryLine> memory;
  std::vector<MemoryLine> host_memory;  // pinned in the host by a GPU's run; no part of the peak
  BatchRoom training_batch, evaluation_batch;  // sizes that the engine lays out memory for
  RolloutPlan rollout;
  int64_t predicted_peak_bytes = 0;  // the sum of the lines: what the engine's allocator will see
  int64_t available_bytes = 0;       // of the device, less the runtime's reserve and a GPU's allocator_slack
  int64_t steps_per_epoch = 0;
  int64_t steps = 0;             // of the whole run; 0: open, train.max_time ends it
  PlannedTime time;
  int64_t checkpoint_bytes = 0;  // one checkpoint
  int64_t disk_bytes = 0;        // all that the run keeps at its fullest moment
  // `identity` is what makes two jobs the same job, `execution` is how it is executed: key → the
  // value that the user asked for. A run folder holds another job when `identity` differs; a change
  // in `execution` alone means planning again.
  std::map<std::string, std::string> identity, execution;
  std::vector<std::string> warnings;

  std::string device_name() const;  // "cpu" or "cuda:N"
  const std::string& provider_name() const { return provider; }
  int64_t memory_limit() const;  // that the engine's allocator may take
};

struct PlanInput {
  Job job;  // load_job's, Autos open
  Origins origins;
  Device device;
  std::string device_warning, idle_cards;  // DeviceChoice's words: warnings of the plan
  std::string tokenizer_note;              // Tokenizer::class_note(), a warning too
  Profile profile;
  std::vector<Provider> providers;  // in the order in which `auto` tries them
  ModelSpec model;
  ConfigNotes model_notes;
  std::string model_hash;
  int64_t model_bytes = 0;
  std::vector<StartFile> start_files;
  DataSummary train;
  DataSummary eval;
  std::optional<Rates> rates;  // this machine's, once measured
  std::vector<int32_t> stop_ids;                     // of the model: what ends a completion
  std::vector<std::vector<int32_t>> stop_sequences;  // tokens of each text of rollout.stop
  // Tokens and supervised tokens of each example; empty while only estimating (lengths alone may be
  // a sample's).
  std::vector<int64_t> train_lengths, train_supervised, eval_lengths, eval_supervised;
};

// Returns the tokens of one batch of an evaluation: those of a training micro-batch, so that it
// needs no more memory.
int64_t evaluation_tokens(const Plan& plan);

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

// Returns the keys of which two maps have different values, or one has none and the other not the
// key's default.
std::vector<std::string> differing_keys(const std::map<std::string, std::string>& before,
                                        const std::map<std::string, std::string>& after);

// Returns the keys of `identity` whose values differ, and the names of the start files that do;
// empty for the same job. If one of the plans does not list its files, files are not compared.
std::vector<std::string> identity_differences(const Plan& old_plan, const Plan& new_plan);

}  // namespace forge
