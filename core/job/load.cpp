#include "core/job/load.h"

#include <algorithm>
#include <filesystem>

#include "core/job/environment.h"
#include "core/job/field.h"
#include "core/job/hub_paths.h"
#include "core/job/names.h"
#include "core/job/parse.h"
#include "core/job/rules.h"
#include "core/job/secrets.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Rewrites `adapter.type: qlora` to lora on a model in nf4 with double quantization.
void rewrite_qlora(Node& root, std::map<std::string, Origin>& derived, Diagnostics& faults) {
  Node* adapter = root.find("adapter");
  Node* type = adapter ? adapter->find("type") : nullptr;
  if (!type || !type->is_scalar() || type->scalar != "qlora") return;
  Position at = type->at;
  type->scalar = "lora";
  Node* model = root.find("model");
  if (!model || !model->is_map()) return;  // model.path is missing: reported elsewhere
  const Node* quantization = model->find("quantization");
  if (quantization && quantization->is_scalar() && quantization->scalar != "nf4") {
    faults.add(quantization->at, "model.quantization",
               "adapter.type: qlora means nf4, this says " + quantization->scalar,
               "remove it, or write adapter: lora");
    return;
  }
  auto derive = [&](const std::string& key, const char* value) {
    const Node* old = model->find(key);
    if (old && !old->is_null()) return;
    model->set(key, scalar_node(value, at, Quoting::plain));
    derived["model." + key] = {OriginKind::derived, {}, "adapter.type is qlora (" + at.text() + ")"};
  };
  derive("quantization", "nf4");
  derive("double_quantization", "true");
}

struct Preset {
  const char* name;
  const char* type;
  std::vector<std::pair<const char*, const char*>> keys;  // keys of the objective
};
// Named algorithms, each with the grpo or ppo keys that it stands for. They are rewritten when the
// job is read: the plan shows the long form, and no code asks for an algorithm's name.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{
      {"dr_grpo", "grpo", {{"advantage.scale", "none"}, {"mean", "constant"}}},
      {"dapo", "grpo", {{"clip_low", "0.2"}, {"clip_high", "0.28"}, {"mean", "token"}}},
      {"gspo", "grpo", {{"ratio", "sequence"}, {"clip_low", "3e-4"}, {"clip_high", "4e-4"}, {"mean", "sequence"}}},
      {"cispo", "grpo", {{"policy", "cispo"}, {"clip_high", "4"}}},
      {"sapo", "grpo", {{"policy", "sapo"}}},
      {"gepo", "grpo", {{"ratio", "group"}, {"clip_low", "0.2"}, {"clip_high", "0.2"}, {"mean", "sequence"}}},
      {"rloo", "grpo",
       {{"ratio", "sum"}, {"clip_low", "0.2"}, {"clip_high", "0.2"}, {"mean", "sequence"}, {"advantage.baseline", "others"},
        {"advantage.scale", "none"}, {"kl.weight", "0.05"}, {"kl.estimator", "k1"}, {"kl.in", "reward"}}},
      {"reinforce++", "grpo",
       {{"policy", "reinforce"}, {"advantage.baseline", "none"}, {"advantage.scale", "batch"}, {"kl.weight", "0.01"},
        {"kl.estimator", "k1"}, {"kl.in", "reward"}}},
      {"ppo", "ppo", {{"advantage.scale", "batch"}}},
      {"vapo", "ppo",
       {{"advantage.scale", "batch"}, {"clip_low", "0.2"}, {"clip_high", "0.28"}, {"mean", "token"}, {"lambda_length", "0.05"},
        {"lambda_value", "1"}, {"value.pretrain_steps", "50"}, {"success_nll", "0.1"}}},
  };
  return all;
}

// Returns the first reward, by which dapo selects groups; empty if there is none.
std::string first_reward(const Node& root) {
  const Node* rewards = root.find("rewards");
  if (!rewards || rewards->items.empty() || !rewards->items[0].is_map()) return "";
  for (const char* key : {"name", "type"})
    if (const Node* value = rewards->items[0].find(key); value && value->is_scalar()) return value->scalar;
  return "";
}

// Rewrites a preset: `objective.type: gspo` is grpo with other values, and ppo has a default of its
// own. Values that the job states are kept. A preset key is left out if a stated key takes its
// effect away.
void rewrite_preset(Node& root, std::map<std::string, Origin>& derived) {
  Node* objective = root.find("objective");
  Node* type = objective && objective->is_map() ? objective->find("type") : nullptr;
  if (!type || !type->is_scalar()) return;
  const std::string name = type->scalar;
  const auto preset = std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return name == p.name; });
  if (preset == presets().end()) return;
  const Position at = type->at;
  const std::string reason = "objective.type is " + name + " (" + at.text() + ")";
  if (name != preset->type) {
    type->scalar = preset->type;
    derived["objective.type"] = {OriginKind::derived, at, name + " is " + preset->type + " with other keys"};
  }
  const auto derive = [&](const std::string& dotted, const std::string& value) {
    Node* parent = &root;
    const std::vector<std::string> parts = split(dotted, '.');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (!parent->find(parts[i])) parent->set(parts[i], map_node({}, at));
      parent = parent->find(parts[i]);
      if (!parent->is_map()) return;  // reported elsewhere
    }
    const Node* old = parent->find(parts.back());
    if (old && !old->is_null()) return;
    parent->set(parts.back(), scalar_node(value, at, Quoting::either));
    derived[dotted] = {OriginKind::derived, at, reason};
  };
  const Node* policy = objective->find("policy");
  const Node* kl = objective->find("kl");
  const Node* weight = kl && kl->is_map() ? kl->find("weight") : nullptr;
  const bool other_policy = policy && policy->is_scalar();
  const bool no_kl = weight && weight->is_scalar() && (weight->scalar == "0" || weight->scalar == "0.0");
  for (const auto& [key, value] : preset->keys) {
    if (other_policy && (starts_with(key, "clip_") || std::string_view(key) == "ratio")) continue;
    if (no_kl && starts_with(key, "kl.")) continue;
    if (std::string_view(key) == "lambda_length" && objective->find("lambda_policy")) continue;
    derive(std::string("objective.") + key, value);
  }
  if (name == "dapo" && !first_reward(root).empty())
    derive("rollout.dynamic_sampling.reward", first_reward(root));
}

// Sets the defaults that depend on where the file is.
void fill_defaults(LoadedJob& loaded, const std::string& path, const ResolvePath& resolve,
                   const Parsed& parsed) {
  Job& job = loaded.job;
  Position file{path, 1, 1};
  if (job.name.empty()) {
    job.name = std::filesystem::path(path).stem().string();
    loaded.origins["name"] = {OriginKind::unset, {}, "the job file's name"};
  }
  if (!parsed.given.contains("output_dir")) job.output_dir = resolve(job.output_dir, file);
  if (names_a_template_file(job.data.template_name) && parsed.given.contains("data.template"))
    job.data.template_name = resolve(job.data.template_name, parsed.given.at("data.template"));
  // A command runs in the folder of the file that states it.
  const auto set_directory = [&](std::optional<std::string>& directory, const std::string& command) {
    const auto stated = parsed.given.find(command);
    if (!directory && stated != parsed.given.end())
      directory = std::filesystem::path(resolve(".", stated->second)).lexically_normal().string();
  };
  for (size_t i = 0; i < job.rewards.size(); ++i) {
    RewardConfig& reward = job.rewards[i];
    if (auto* command = reward.find<CommandReward>())
      set_directory(command->directory, "rewards[" + std::to_string(i) + "].command");
    if (reward.name.empty()) reward.name = name_of(reward.type());
  }
  set_directory(job.rollout.tools.directory, "rollout.tools.command");
  if (job.objective.find<PolicyConfig>() && !parsed.given.contains("data.overlong")) {
    job.data.overlong = Overlong::drop;
    loaded.origins["data.overlong"] = {OriginKind::unset, {}, "a prompt is never cut"};
  }
  TrainConfig& train = job.train;
  if (!train.epochs && !train.max_steps && !train.max_tokens && !train.max_time) train.epochs = 1;
}

constexpr const char* kBesideRewards[] = {"version", "name", "seed", "output_dir", "model", "rewards", "reward_mix"};

// Removes the sections that rewards do not need. Unknown keys stay, so that they are reported: one
// may be a misspelt `rewards`.
void leave_rewards(Node& root) {
  std::erase_if(root.members, [](const Member& member) {
    return find_field(member.key) && std::find(std::begin(kBesideRewards), std::end(kBesideRewards), member.key) ==
                                         std::end(kBesideRewards);
  });
}

// Returns the job's table with nothing required for training, and with rewards required.
const std::vector<Field>& reward_job_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all = job_fields();
    for (Field& field : all) field.required = field.key == "rewards";
    return all;
  }();
  return fields;
}

// Refuses a name that is in no table. File names are not checked.
void check_choices(const std::map<std::string, std::vector<std::string>>& choices, const LoadedJob& loaded,
                   const Parsed& parsed, Diagnostics& faults) {
  const std::map<std::string, const std::string*> values{{"data.template", &loaded.job.data.template_name},
                                                         {"hardware.profile", &loaded.job.hardware.profile},
                                                         {"provider", &loaded.job.provider}};
  for (const auto& [key, known] : choices) {
    const std::string& value = *values.at(key);
    auto given = parsed.given.find(key);
    if (given == parsed.given.end() || names_a_template_file(value)) continue;
    if (std::find(known.begin(), known.end(), value) != known.end()) continue;
    const std::string close = nearest(value, known);
    faults.add(given->second, key,
               "\"" + value + "\" is not one of " + join(known, ", ") +
                   (key == "data.template" ? ", and no .jinja file" : ""),
               close.empty() ? "" : "did you mean \"" + close + "\"?");
  }
}

}  // namespace

bool names_a_template_file(const std::string& name) {
  return name.ends_with(".jinja") || name.ends_with(".jinja2") || name.find('/') != std::string::npos;
}

LoadedJob load_job(const std::string& path, const LoadOptions& options) {
  const std::string cwd = options.cwd.empty() ? std::filesystem::current_path().string() : options.cwd;
  const Environment environment = options.environment ? options.environment : process_environment();
  Diagnostics faults;
  Layers layers = read_layers(path, options.sets, cwd, environment, faults);

  LoadedJob loaded;
  std::map<std::string, Origin> derived;
  rewrite_qlora(layers.root, derived, faults);
  rewrite_preset(layers.root, derived);
  rewrite_hub_names(layers.root, environment, derived, faults);
  ResolvePath resolve = [&](const std::string& name, const Position& at) {
    const ExpandedPath expanded = expand_path(name, environment);
    if (!expanded.unset.empty())
      faults.add(at, "", name + ": the environment variable " + expanded.unset + " is not set",
                 "set it, or write the folder itself");
    layers.secrets.insert(layers.secrets.end(), expanded.secrets.begin(), expanded.secrets.end());
    return resolve_path(name, at, cwd, environment);
  };
  Parsed parsed;
  parsed.complete = layers.complete;
  if (options.rewards_only) leave_rewards(layers.root);
  parse_section(layers.root, options.rewards_only ? reward_job_fields() : job_fields(), &loaded.job, "", resolve, parsed,
                faults);

  for (const std::string& key : value_keys()) loaded.origins[key] = {};
  for (const auto& [key, at] : parsed.given) loaded.origins[key] = {OriginKind::given, at};
  for (auto& [key, origin] : derived) loaded.origins[key] = std::move(origin);
  fill_defaults(loaded, path, resolve, parsed);
  if (layers.complete && options.rewards_only) check_rewards(loaded.job, parsed, layers.root.at, faults);
  if (layers.complete && !options.rewards_only) check_rules(loaded.job, parsed, layers.root.at, faults);
  check_choices(options.choices, loaded, parsed, faults);

  add_header_secrets(loaded.job, layers.secrets);
  for (const Secret& secret : layers.secrets) faults.hide(secret.value);
  faults.throw_if_any();
  loaded.text = std::move(layers.text);
  loaded.files = std::move(layers.files);
  loaded.secrets = std::move(layers.secrets);
  return loaded;
}

std::string hide_secrets(std::string text, const LoadedJob& loaded) {
  return hide_secrets(std::move(text), loaded.secrets);
}

}  // namespace forge
