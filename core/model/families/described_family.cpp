#include "core/model/families/described_family.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "core/lib/base/embedded_file.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/layer_ops.h"
#include "core/model/families/step.h"
#include "core/model/graph/check.h"

namespace forge {

const std::vector<EmbeddedFile>& embedded_families();  // generated from described/

namespace {

bool uses(const Description& d, const char* op) {
  return std::ranges::any_of(
      d.layer.steps, [&](const LayerStep& step) { return std::string_view(step.op->name) == op; });
}

// Sets what every model of the family has.
void set_constants(const Description& d, ModelSpec& spec) {
  for (const auto& [member, value] : d.fixed) set_member(spec, *member, value);
  spec.rope.interleaved = d.neighbours;
  spec.learned_positions = !d.modules.positions.empty();
  if (!uses(d, "rope")) spec.rope.partial_rotary_factor = 0;
}

// Returns the value of a flag, which may be stated as a word.
Json flag_of(const DescribedSetting& setting, const std::string& key, Settings& settings) {
  if (!setting.words.empty()) {
    const std::string fallback =
        setting.value.is_string() ? setting.value.get<std::string>() : setting.written[0];
    const std::string word = settings.text(key, fallback);
    if (const auto found = setting.words.find(word); found != setting.words.end())
      return found->second;
    std::vector<std::string> words;
    for (const auto& [known, flag] : setting.words) words.push_back(known);
    settings.unsupported(key, "is \"" + word + "\", forge computes " + join(words, ", "));
    return false;
  }
  if (setting.value.is_null() && !settings.find(key))
    settings.broken(key, "is missing, expected true or false");
  return settings.flag(key, setting.value.is_boolean() && setting.value.get<bool>());
}

Json value_in(const DescribedSetting& setting, const std::string& key, Settings& settings) {
  const SpecMember& member = *setting.sets.front();
  if (member.is_flag()) return flag_of(setting, key, settings);
  const bool required = setting.value.is_null();
  if (member.is_integer())
    return settings.integer(key, static_cast<int64_t>(setting.least),
                            static_cast<int64_t>(setting.most),
                            required ? std::nullopt : std::optional(setting.value.get<int64_t>()));
  const double number =
      settings.number(key, setting.least, setting.most,
                      required ? std::nullopt : std::optional(setting.value.get<double>()));
  return setting.inverse ? 1 / number : number;
}

void read_setting(const DescribedSetting& setting, const std::string& key, Settings& settings,
                  ModelSpec& spec) {
  if (setting.sets.empty()) return settings.must_be(key, setting.value, setting.because);
  const Json value = value_in(setting, key, settings);
  for (const SpecMember* member : setting.sets) set_member(spec, *member, value);
}

void read_described_windows(const DescribedWindows& windows, Settings& settings, ModelSpec& spec) {
  if (windows.full_every == 0) return read_windows(settings, spec, windows.absent);
  const int64_t period =
      windows.full_every_key.empty()
          ? windows.full_every
          : settings.integer(windows.full_every_key, 1, kMostLayers, windows.full_every);
  read_periodic_windows(settings, spec, windows.absent, period);
  if (windows.rotary_in_windows) spec.no_rope_layers = spec.full_layers;
}

// Reads the router's loss as transformers' mixtures do.
void read_router_loss(Settings& settings, ModelSpec& spec) {
  const double coefficient = settings.number("router_aux_loss_coef", 0, 1e6, 0.001);
  spec.router_loss = settings.flag("output_router_logits", false) ? coefficient : 0;
}

void read(const Description& d, Settings& settings, ModelSpec& spec) {
  if (d.head_dim > 0 && !settings.has("head_dim")) spec.head_dim = d.head_dim;
  set_constants(d, spec);
  for (const DescribedSetting& setting : d.settings)
    read_setting(setting, setting.key, settings, spec);
  if (d.windows) read_described_windows(*d.windows, settings, spec);
  if (uses(d, "experts")) read_router_loss(settings, spec);
  for (const std::string& key : d.ignores) settings.find(key);
}

void read_gguf(const Description& d, Settings& settings, ModelSpec& spec) {
  const GgufWindows windows = d.windows ? d.windows->gguf : GgufWindows::refused;
  if (windows == GgufWindows::refused) refuse_window(settings, spec);
  set_constants(d, spec);
  for (const auto& [member, value] : d.fixed_in_gguf) set_member(spec, *member, value);
  for (const DescribedSetting& setting : d.settings)
    if (!setting.gguf.empty()) read_setting(setting, "." + setting.gguf, settings, spec);
  if (windows != GgufWindows::periodic) return;
  set_periodic_windows(settings, spec, d.windows->absent, d.windows->full_every);
  if (d.windows->rotary_in_windows) spec.no_rope_layers = spec.full_layers;
}

// Returns what a config.json says for the members of a setting.
Json written_value(const DescribedSetting& setting, const ModelSpec& spec) {
  const SpecMember& member = *setting.sets.front();
  const Json value = value_of_member(spec, member);
  if (!setting.words.empty()) return setting.written[value.get<bool>()];
  if (setting.inverse) return 1 / value.get<double>();
  // 0 stands for 1 / sqrt(head_dim).
  if (std::string_view(member.name) == "attention_scale") return attention_of(spec, 0).scale;
  return value;
}

void write(const Description& d, const ModelSpec& spec, Json& config) {
  for (const DescribedSetting& setting : d.settings)
    if (!setting.sets.empty()) config[setting.key] = written_value(setting, spec);
  if (d.windows) write_window(spec, config);
  if (d.windows && d.windows->full_every > 0) write_layer_types(spec, config);
  if (uses(d, "experts")) {
    config["output_router_logits"] = spec.router_loss > 0;
    if (spec.router_loss > 0) config["router_aux_loss_coef"] = spec.router_loss;
  }
  if (uses(d, "rope")) return;
  for (const char* key : {"rope_parameters", "rope_theta"}) config.erase(key);
}

// Returns the tensor that says whether linear layers have the biases of `member`; empty for a layer
// without such biases.
std::string bias_of(const Description& d, const char* member) {
  for (const LayerStep& step : d.layer.steps)
    if (step.bias && std::string_view(step.bias->name) == member)
      return d.modules.layers + "0." + step.modules[0].name + ".bias";
  return "";
}

std::string norm_of_heads(const Description& d) {
  for (const LayerStep& step : d.layer.steps)
    if (step.flag && step.flag->name == "qk_norm" && step.wanted && step.op->rest == Rest::module)
      return d.modules.layers + "0." + step.modules[0].name + ".weight";
  return "";
}

// `made` stays where it is: the family points into it.
void make_family(Described& made) {
  const Description& d = made.description;
  const DescribedModules& m = d.modules;
  Family& family = made.family;
  family.name = d.name, family.architecture = d.architecture, family.gguf_architecture = d.gguf;
  family.described = &made;
  family.mixture = uses(d, "experts");
  family.max_position_embeddings = d.max_position_embeddings, family.num_kv_heads = d.num_kv_heads;
  family.activation = d.activations[0].c_str();
  family.same_activations.assign(d.activations.begin() + 1, d.activations.end());
  family.norm_eps = d.norm_eps, family.rope_theta = d.rope_theta;
  family.partial_rotary = d.partial_rotary_factor.has_value();
  family.partial_rotary_factor = d.partial_rotary_factor.value_or(1);
  family.tied = d.tied, family.mlp_ratio = d.mlp_ratio, family.padding_row = d.padding_row;
  family.spelling = d.spelling;
  family.modules = {.embedding = m.embedding.c_str(),
                    .positions = m.positions.c_str(),
                    .layers = m.layers.c_str(),
                    .final_norm = m.final_norm.c_str(),
                    .head = m.head.c_str(),
                    .stored_head = m.stored_head.c_str()};
  family.told = {bias_of(d, "qkv_bias"), bias_of(d, "o_bias"), bias_of(d, "mlp_bias"),
                 norm_of_heads(d)};
  family.read = [&d](Settings& settings, ModelSpec& spec) { read(d, settings, spec); };
  family.write = [&d](const ModelSpec& spec, Json& config) { write(d, spec, config); };
  family.read_gguf = [&d](Settings& settings, ModelSpec& spec) { read_gguf(d, settings, spec); };
  family.layer = [&d](Recorder& g, const ModelSpec& spec, int64_t layer, ValueId h) {
    return record_layer(d.layer, g, spec, layer, h);
  };
}

std::unique_ptr<Described> made_of(const std::string& text, const std::string& file) {
  auto made = std::make_unique<Described>();
  made->file = file, made->text = text;
  made->description = parse_description(text, file);
  make_family(*made);
  return made;
}

// Returns one layer of each kind that the description may treat in its own way.
std::vector<int64_t> layers_of_each_kind(const ModelSpec& spec) {
  std::set<bool> seen;
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (seen.insert(spec.windowed(layer)).second) layers.push_back(layer);
  return layers;
}

}  // namespace

const Described& described_family(const std::string& text, const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Described>> all;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Described>& made = all[text];
  if (!made) {
    try {
      made = made_of(text, file);
    } catch (...) {
      all.erase(text);
      throw;
    }
  }
  return *made;
}

const Described* described_of(const ModelConfig& model, const Json& config) {
  if (model.family) {
    if (!file_exists(*model.family))
      throw Error(ErrorKind::job, "model.family: " + *model.family + ": no such file")
          .hint("it names a family file, docs/family-files.md");
    return &described_family(read_file(*model.family, kLargestDescription + 1, ErrorKind::job),
                             *model.family);
  }
  const std::string beside = model.path + "/" + kFamilyFile;
  if (!config.is_object() || find_family(config.value("model_type", Json())) ||
      !is_directory(model.path) || !file_exists(beside))
    return nullptr;
  return &described_family(read_file(beside, kLargestDescription + 1, ErrorKind::environment),
                           beside);
}

const Described* described_in(const ModelSpec& spec) {
  return spec.described.empty() ? nullptr : &described_family(spec.described, kFamilyFile);
}

std::string built_in_description(const std::string& file) {
  for (const EmbeddedFile& embedded : embedded_families())
    if (embedded.name == file) return std::string(embedded.text);
  return "";
}

Family built_in_family(const std::string& file) {
  const std::string text = built_in_description(file);
  FORGE_CHECK(!text.empty(), "described/ has no " << file);
  try {
    return described_family(text, file).family;
  } catch (const JobErrors& faults) {
    throw Error(ErrorKind::internal, faults.what());
  }
}

bool describes_rope(const Described& described) { return uses(described.description, "rope"); }

void check_described(const Described& described, const ModelSpec& spec) {
  Diagnostics faults;
  for (const int64_t layer : layers_of_each_kind(spec))
    for (const Diagnostic& fault : width_faults(described.description.layer, spec, layer))
      faults.add(fault.at, fault.key, fault.message, fault.hint);
  faults.throw_if_any();
  if (spec.described.empty()) return;  // forge's own are tested
  ModelSpec few = spec;
  few.num_layers = std::min<int64_t>(spec.num_layers, 2);
  std::vector<std::string> wrong;
  try {
    wrong = step_faults(training_step(StepShape(few, ModuleTraining{.all = true})));
  } catch (const Error& error) {
    wrong.push_back(error.what());
  }
  if (!wrong.empty())
    throw Error(ErrorKind::job,
                described.file + ": layer: forge cannot train these formulas: " + wrong[0])
        .hint("compare with a description of forge's own: core/model/families/described");
}

}  // namespace forge
