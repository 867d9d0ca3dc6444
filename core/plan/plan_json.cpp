// Reads and writes plan.json: an exact round trip, in an order meant for reading, and its schema.
#include "core/job/emit.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/model/families/adapter_sites.h"
#include "core/plan/plan.h"
#include "core/plan/stages/step_choice.h"

namespace forge {
namespace {

constexpr int64_t kVersion = 1;
constexpr const char* kHash = "hash";

constexpr auto kDeviceMembers = [](auto& device, auto&& member) {
  member("cuda", device.cuda, "True if the run computes on a GPU.");
  member("index", device.index, "Index of the GPU.", at_least(0));
  member("cpu", device.cpu, "The processor.");
  if (device.cuda) member("gpu", device.gpu, "The GPU, if the run computes on one.");
};

constexpr auto kOriginMembers = [](auto& origin, auto&& member) {
  member.later("kind", origin.kind, "Kind of the origin.");
  member("source", origin.source, "default, derived, a file's line, --set, or a profile.");
  member("reason", origin.reason, "Reason for a value that nobody chose.");
};

constexpr auto kLineMembers = [](auto& line, auto&& member) {
  member("name", line.name, "Use of the bytes.");
  member("bytes", line.bytes, "Bytes at the moment of the peak.", at_least(0));
  member("formula", line.formula, "Formula for the bytes, with numbers filled in.");
};

constexpr auto kRoomMembers = [](auto& room, auto&& member) {
  member("tokens", room.tokens, "Maximum number of tokens.");
  member("targets", room.targets, "Maximum number of supervised positions.");
  member.rare("source", room.source, "Maximum number of tokens that an encoder reads, which are among the tokens.", at_least(0));
};

constexpr auto kRolloutMembers = [](auto& rollout, auto&& member) {
  member("stop_ids", rollout.stop_ids, "Tokens that end a completion.");
  member("stop_sequences", rollout.stop_sequences, "Tokens of each text of rollout.stop.");
  member("prompt_tokens", rollout.prompt_tokens,
         "Tokens of the prompts that are read at once.", at_least(0));
  member.later("decoder", rollout.decoder,
               "Provider that draws completions. Empty: a server does.");
  member("waves", rollout.waves,
         "Batches of rollout.slots completions per rollout. 0: none is drawn here.", at_least(0));
  member("sample_seconds", rollout.sample_seconds,
         "Time of a rollout of the longest completions. 0: not known.", at_least(0));
};

constexpr auto kTimeMembers = [](auto& time, auto&& member) {
  member("step_seconds", time.step_seconds, "Time of a step. 0: not known.", at_least(0));
  member("run_seconds", time.run_seconds, "Time of all steps. 0: not known.", at_least(0));
  member("reason", time.reason, "Basis of the times, or why they are not known and what to do.");
};

constexpr auto kTargetMembers = [](auto& match, auto&& member) {
  member("target", match.target, "Target as in adapter.target_modules.");
  member("modules", match.modules, "Number of linear layers that it matches.", at_least(0));
  member.later("parameters", match.parameters, "Adapter parameters in those layers.", at_least(0));
  member.later("peft_modules", match.peft_modules,
               "Linear layers that PEFT matches under transformers 5.", at_least(0));
  member.later("peft_parameters", match.peft_parameters,
               "Parameters of PEFT's adapter in those layers.", at_least(0));
};

constexpr auto kAttentionMembers = [](auto& use, auto&& member) {
  member("kernel", use.kernel, "tiles, flash, efficient, own, sdpa or eager.");
  member("layers", use.layers, "Layers that use this kernel.");
  member("reason", use.reason, "Reason for this kernel.");
};

constexpr auto kPlanMembers = [](auto& plan, auto&& member) {
  member("profile", plan.profile, "Name of the hardware profile.");
  member("profile_rule", plan.profile_rule, "Reason for this profile.");
  member("engine", plan.engine, "cpu, cuda13, or none if no engine computes on the card.");
  member("provider", plan.provider, "Implementation of the layers.");
  member.group("parameters", "Parameter counts of the model with its adapter.", [&](auto&& inner) {
    inner("total", plan.parameters.total, "All parameters.", at_least(0));
    inner("trainable", plan.parameters.trainable, "Parameters that training changes.", at_least(0));
  });
  member("steps", plan.steps, "Steps of the whole run. 0: train.max_time ends it.", at_least(0));
  member("steps_per_epoch", plan.steps_per_epoch, "Optimizer steps per epoch.", at_least(1));
  member.group("memory",
               "Memory of the device, as the engine's allocator counts it.",
               [&](auto&& inner) {
    inner("predicted_peak_bytes", plan.predicted_peak_bytes, "Sum of the lines.", at_least(0));
    inner("available_bytes", plan.available_bytes,
          "Free memory of the device, minus the runtime's reserve.", at_least(0));
    inner("lines", plan.memory, "Parts of the peak.");
    inner.later("host_lines", plan.host_memory,
                "Pinned host memory, which is not part of the peak.");
    inner.later("training_batch", plan.training_batch, "Largest micro-batch.");
    inner.later("evaluation_batch", plan.evaluation_batch, "Largest batch of an evaluation.");
    inner.later("recompute", plan.step.recompute,
                "Activations that the backward pass recomputes, with their layers.");
  });
  member.later("rollout", plan.rollout, "Drawing of completions.");
  member.later("time", plan.time,
               "Predicted times, from this machine's rates (forge bench --kernels).");
  member.group("disk", "Files that the run writes.", [&](auto&& inner) {
    inner("checkpoint_bytes", plan.checkpoint_bytes, "Size of one checkpoint.", at_least(0));
    inner("bytes", plan.disk_bytes, "Everything on disk, at its largest.", at_least(0));
  });
  member("storage", plan.storage, "Data type of frozen weights that are not quantized.");
  member.later("attention_kernels", plan.attention,
               "Attention kernels, with the layers that use them.");
  member("loss_scaling", plan.loss_scaling, "dynamic for fp16, otherwise none.");
  member.later("fused_head", plan.step.fused_head,
               "True if the head computes the loss without storing logits.");
  member.later("folded_adapters", plan.step.folded_adapters,
               "True if adapters run inside the matrix products of their frozen weights.");
  member.later("kept_norms", plan.step.kept_norms,
               "True if the outputs of norms are kept for the adapters' gradients.");
  member("targets", plan.targets, "Layers that the adapter changes.");
  member("device", plan.device, "Device that the run computes on.");
  member("model", plan.model, "Shape of the model.");
  member("model_hash", plan.model_hash, "Hash of the header of the model's file.");
  member("model_bytes", plan.model_bytes, "Size of the model's file.", at_least(0));
  member.later("start_files", plan.start_files,
               "Files that the run starts from besides its data, by content.");
  member.group("data",
               "Summary of the two splits. Without examples in eval, nothing is evaluated.",
               [&](auto&& inner) {
    inner("train", plan.train, "Training split.");
    inner("eval", plan.eval, "Evaluation split.");
    inner.group("packing", "Fill of the batches, over the first steps.", [&](auto&& packing) {
      packing("micro_batches_per_step", plan.packing.micro_batches_per_step,
              "Micro-batches per step. 0 while only estimated.", at_least(0));
      packing("micro_batch_fill", plan.packing.micro_batch_fill,
              "Tokens / train.micro_batch_tokens.", at_least(0));
      packing("step_fill", plan.packing.step_fill,
              "Tokens / train.global_batch_tokens. 0 without it.", at_least(0));
    });
  });
  member("job", plan.job, "The job, with every auto resolved.");
  member("origins", plan.origins, "Origin of each value of the job, by dotted key.");
  member("identity", plan.identity, "Values that make another job if they change.");
  member("execution", plan.execution,
         "Values that may change in a run, which is then planned again.");
  member("warnings", plan.warnings, "Facts to know before starting.");
};

}  // namespace

// Argument-dependent lookup finds these functions wherever a member of these types is written, read
// or described.
static void to_json(Json& json, const Device& device) { json = write_members(device, kDeviceMembers); }
static void from_json(const Json& json, Device& device) { read_members(json, device, kDeviceMembers); }
static Json schema_of(const Device&) {
  Device with_gpu;
  with_gpu.cuda = true;
  Json schema = members_schema(with_gpu, kDeviceMembers);
  schema["required"].erase(schema["required"].size() - 1);  // gpu, the last
  return schema;
}

static void to_json(Json& json, const ValueOrigin& origin) { json = write_members(origin, kOriginMembers); }
static void from_json(const Json& json, ValueOrigin& origin) { read_members(json, origin, kOriginMembers); }
static Json schema_of(const ValueOrigin& origin) { return members_schema(origin, kOriginMembers); }

static void to_json(Json& json, const MemoryLine& line) { json = write_members(line, kLineMembers); }
static void from_json(const Json& json, MemoryLine& line) { read_members(json, line, kLineMembers); }
static Json schema_of(const MemoryLine& line) { return members_schema(line, kLineMembers); }

static void to_json(Json& json, const BatchRoom& room) { json = write_members(room, kRoomMembers); }
static void from_json(const Json& json, BatchRoom& room) { read_members(json, room, kRoomMembers); }
static Json schema_of(const BatchRoom& room) { return members_schema(room, kRoomMembers); }

static void to_json(Json& json, const Recomputed& again) {
  json = Json::object();
  for (const auto& [group, layers] : again.layers) json[group] = layer_ranges(layers);
}
static void from_json(const Json& json, Recomputed& again) {
  constexpr const char* kExpected = "layers, as in \"0-3,7\"";
  if (!json.is_object()) throw MemberFault(": expected an object, found " + found_text(json));
  for (const auto& [group, layers] : json.items()) {
    const auto read = layers.is_string() ? layers_of(layers.get<std::string>()) : std::nullopt;
    if (!read) throw MemberFault("." + group + ": expected " + kExpected + ", found " + found_text(layers));
    again.layers[group] = *read;
  }
}
static Json schema_of(const Recomputed&) {
  return {{"type", "object"}, {"additionalProperties", {{"type", "string"}, {"pattern", "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"}}}};
}
static void to_json(Json& json, const RolloutPlan& rollout) { json = write_members(rollout, kRolloutMembers); }
static void from_json(const Json& json, RolloutPlan& rollout) { read_members(json, rollout, kRolloutMembers); }
static Json schema_of(const RolloutPlan& rollout) { return members_schema(rollout, kRolloutMembers); }

static void to_json(Json& json, const PlannedTime& time) { json = write_members(time, kTimeMembers); }
static void from_json(const Json& json, PlannedTime& time) { read_members(json, time, kTimeMembers); }
static Json schema_of(const PlannedTime& time) { return members_schema(time, kTimeMembers); }

static void to_json(Json& json, const AttentionUse& use) { json = write_members(use, kAttentionMembers); }
static void from_json(const Json& json, AttentionUse& use) { read_members(json, use, kAttentionMembers); }
static Json schema_of(const AttentionUse& use) { return members_schema(use, kAttentionMembers); }

static void to_json(Json& json, const TargetMatch& match) { json = write_members(match, kTargetMembers); }
static void from_json(const Json& json, TargetMatch& match) { read_members(json, match, kTargetMembers); }
static Json schema_of(const TargetMatch& match) { return members_schema(match, kTargetMembers); }

template <JobEnum Enum>
static void to_json(Json& json, Enum value) {
  json = name_of(value);
}
template <JobEnum Enum>
static void from_json(const Json& json, Enum& value) {
  const auto found = json.is_string() ? enum_of<Enum>(json.get<std::string>()) : std::nullopt;
  if (!found) throw MemberFault(": expected " + join(names(value), ", ") + ", found " + found_text(json));
  value = *found;
}
template <JobEnum Enum>
static Json schema_of(Enum value) {
  return {{"enum", names(value)}};
}

static void to_json(Json& json, const DataSummary& summary) { json = to_json(summary); }
static void from_json(const Json& json, DataSummary& summary) { summary = data_summary_from_json(json); }
static Json schema_of(const DataSummary& summary) {
  Json schema{{"type", "object"}};
  const Json example = to_json(summary);
  for (const auto& [key, value] : example.items()) {
    const char* type = value.is_string() ? "string" : value.is_boolean() ? "boolean" : "integer";
    schema["properties"][key] = {{"type", value.is_object() ? "object" : value.is_array() ? "array" : type}};
  }
  return schema;
}

static void to_json(Json& json, const Job& job) { json = to_json(job); }
static void from_json(const Json& json, Job& job) { job = job_from_json(json, "plan.json"); }
static Json schema_of(const Job&) { return {{"$ref", "#/$defs/job"}}; }

namespace {

// Checks everything that the engine relies on: a plan leaves nothing open.
void require_resolved(const Plan& plan) {
  const TrainConfig& train = plan.job.train;
  const auto require = [](bool good, const char* key, const char* expected) {
    if (!good) throw MemberFault(std::string("job.") + key + ": expected " + expected);
  };
  require(train.precision.has_value(), "train.precision", "a value, found auto");
  require(train.threads.has_value(), "train.threads", "a value, found auto");
  require(train.global_batch_size.has_value(), "train.global_batch_size", "a value, found auto");
  require(train.micro_batch_tokens.has_value(), "train.micro_batch_tokens", "a value, found auto");
  require(train.activation_checkpointing.has_value(), "train.activation_checkpointing", "a value, found auto");
  require(!draws_completions(plan.job.objective.type()) || plan.job.rollout.slots, "rollout.slots", "a value, found auto");
  require(plan.steps > 0 || train.max_time.has_value(), "train.max_time", "a value in a plan without steps");
}

}  // namespace

Json to_json(const Plan& plan) {
  Json json{{"version", kVersion}};
  json.update(write_members(plan, kPlanMembers));
  set_plan_hash(json);
  return json;
}

void set_plan_hash(Json& plan) {
  plan.erase(kHash);
  plan[kHash] = hash_hex(dump_json(plan));
}

void take_plan_hash(Json& plan, const std::string& name) {
  if (!plan.is_object()) return;  // plan_from_json says so
  const Json stated = plan.value(kHash, Json());
  plan.erase(kHash);
  if (stated == hash_hex(dump_json(plan))) return;
  throw Error(ErrorKind::environment, name + ": was edited: its content does not match its hash")
      .hint("do not edit a run's plan: undo that and change the job file instead, or start over with --fresh");
}

std::string stated_plan_hash(const Json& plan) {
  return plan.is_object() && plan.contains(kHash) && plan[kHash].is_string() ? plan[kHash].get<std::string>() : "";
}

Plan plan_from_json(const Json& json, const std::string& name) {
  const auto refuse = [&](const std::string& what) -> Error {
    return Error(ErrorKind::environment, name + ": not a plan of this forge: " + what)
        .hint("--fresh starts the run over");
  };
  if (!json.is_object() || json.value("version", Json()) != kVersion)
    throw refuse("expected version " + std::to_string(kVersion));
  try {
    Plan plan;
    read_members(json, plan, kPlanMembers);
    require_resolved(plan);
    plan.step = with_job(plan, plan.step);
    return plan;
  } catch (const MemberFault& fault) {
    throw refuse(fault.what());
  }
}

Json plan_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "forge plan"},
              {"description", "plan.json of a run folder, and the output of forge plan --json."}};
  schema.update(members_schema(Plan(), kPlanMembers));
  // The job's schema is included, so that the file is self-contained.
  Json job = parse_json(job_schema_json(), "job.schema.json", ErrorKind::internal);
  job.erase("$schema");
  schema["$defs"]["job"] = std::move(job);
  schema["properties"]["version"] = {{"const", kVersion},
                                     {"description", "Version of this format."}};
  schema["required"].push_back("version");
  schema["properties"][kHash] = {
      {"type", "string"},
      {"description", "XXH3-128 of everything else, as one line of JSON."}};
  return schema;
}

}  // namespace forge
