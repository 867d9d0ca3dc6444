#include "core/config/load.h"

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"
#include "core/config/field.h"
#include "core/config/names.h"
#include "core/config/parse.h"
#include "core/config/reward_rules.h"
#include "core/config/rules.h"
#include "core/config/secrets.h"

namespace forge {
namespace {

// Sets or replaces a member, with the place of what implies it.
void imply(Node& section, const std::string& key, Node value) {
  Position at = value.at;
  if (Node* old = section.find(key))
    *old = std::move(value);
  else
    section.members.push_back({key, at, std::move(value)});
}

// `adapter.type: qlora` is lora on a model in nf4 with double quantization.
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
    imply(*model, key, scalar_node(value, at, Quoting::plain));
    derived["model." + key] = {OriginKind::derived, {}, "adapter.type is qlora (" + at.text() + ")"};
  };
  derive("quantization", "nf4");
  derive("double_quantization", "true");
}

// Values that stand for "not said" and that the file's place decides.
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
  for (size_t i = 0; i < job.rewards.size(); ++i) {
    RewardConfig& reward = job.rewards[i];
    auto stated = parsed.given.find("rewards[" + std::to_string(i) + "].command");
    if (!reward.directory && stated != parsed.given.end())
      reward.directory = std::filesystem::path(resolve(".", stated->second)).lexically_normal().string();
    if (reward.name.empty()) reward.name = name_of(reward.type);
  }
  TrainConfig& train = job.train;
  if (!train.epochs && !train.max_steps && !train.max_tokens && !train.max_time) train.epochs = 1;
}

constexpr const char* kBesideRewards[] = {"version", "name", "seed", "output_dir", "model", "rewards", "reward_mix"};

// Unknown keys stay, to be told of: one of them may be a misspelt `rewards`.
void leave_rewards(Node& root) {
  std::erase_if(root.members, [](const Member& member) {
    return find_field(member.key) && std::find(std::begin(kBesideRewards), std::end(kBesideRewards), member.key) ==
                                         std::end(kBesideRewards);
  });
}

// The table of a job without what training needs, and with rewards as what must be there.
const std::vector<Field>& reward_job_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all = job_fields();
    for (Field& field : all) field.required = field.key == "rewards";
    return all;
  }();
  return fields;
}

// A name that no table knows; a file's name is none.
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
  ResolvePath resolve = [&](const std::string& name, const Position& at) {
    return resolve_path(name, at, cwd, environment);
  };
  Parsed parsed;
  parsed.complete = layers.complete;
  if (options.rewards_only) leave_rewards(layers.root);
  parse_section(layers.root, options.rewards_only ? reward_job_fields() : job_fields(), &loaded.job, "", resolve, parsed,
                faults);

  for (const std::string& key : dotted_keys(job_fields())) {
    const Field* field = find_field(key);
    if (field->kind != FieldKind::section && !inside_list(key))
      loaded.origins[key] = {};
  }
  for (const auto& [key, at] : parsed.given) loaded.origins[key] = {OriginKind::given, at};
  for (auto& [key, origin] : derived) loaded.origins[key] = std::move(origin);
  fill_defaults(loaded, path, resolve, parsed);
  if (layers.complete && options.rewards_only) check_rewards(loaded.job, parsed, layers.root.at, faults);
  if (layers.complete && !options.rewards_only) check_rules(loaded.job, parsed, layers.root.at, faults);
  check_choices(options.choices, loaded, parsed, faults);

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
