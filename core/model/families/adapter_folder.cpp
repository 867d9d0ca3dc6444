#include "core/model/families/adapter_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <type_traits>

#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/lib/io/python_json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/families/modules.h"
#include "core/model/families/pattern.h"
#include "core/model/families/wrapper.h"

namespace forge {
namespace {

constexpr int64_t kLargestConfig = 1 << 20;
constexpr int64_t kMostTokens = 1 << 24;
constexpr const char* kWeights = "/adapter_model.safetensors";
constexpr const char* kOlderHead = "embed_out";  // GPT-NeoX's lm_head until transformers 5

std::string config_path(const std::string& folder) { return folder + "/adapter_config.json"; }

Error fault(const std::string& path, const std::string& what) {
  return Error(ErrorKind::environment, path + ": " + what);
}

// True if a value is of type T; the library would make 4 of 4.5 and 1 of true.
template <class T>
bool is_of(const Json& json) {
  const auto all = [&](const auto& is_member) { return std::all_of(json.begin(), json.end(), is_member); };
  if constexpr (std::is_same_v<T, bool>) return json.is_boolean();
  else if constexpr (std::is_integral_v<T>) return json.is_number_integer();
  else if constexpr (std::is_floating_point_v<T>) return json.is_number() && std::isfinite(json.get<double>());
  else if constexpr (std::is_same_v<T, std::string>) return json.is_string();
  else if constexpr (requires { typename T::mapped_type; }) return json.is_object() && all(is_of<typename T::mapped_type>);
  else return json.is_array() && all(is_of<typename T::value_type>);
}

// Returns the value of a key. Throws an error that names the file if the value has another type.
template <class T>
T get(const Json& json, const char* key, T otherwise, const std::string& path) {
  auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  if (!is_of<T>(*found)) throw fault(path, std::string(key) + " has the wrong type: " + dump_python_json(*found).substr(0, 60));
  return found->get<T>();
}

// Returns the values of a key that has one or a list of them.
template <class T>
std::vector<T> get_list(const Json& json, const char* key, const std::string& path) {
  const Json value = json.value(key, Json());
  return is_of<T>(value) ? std::vector<T>{value.get<T>()}
                         : get<std::vector<T>>(json, key, {}, path);
}

void refuse_other_methods(const Json& json, const std::string& path) {
  const Json method = json.value("peft_type", Json());
  if (method == "LORA") return;
  throw fault(path,
              method.is_null() ? "names no peft_type" : "peft_type is " + dump_json(method).substr(0, 60))
      .hint("forge trains and reads LoRA adapters (with DoRA and rsLoRA)");
}

// Refuses unknown settings, unless null, false or empty: they may change what an adapter computes,
// in this PEFT or a later one.
void refuse_unknown_settings(const Json& json, const std::string& path) {
  static const std::set<std::string> known{
      // read below
      "peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora", "rank_pattern",
      "alpha_pattern", "modules_to_save", "exclude_modules", "layers_to_transform", "target_modules", "target_parameters",
      "init_lora_weights", "bias", "trainable_token_indices", "layers_pattern", "ensure_weight_tying",
      // provenance, and settings that only affected initialisation
      "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode",
      "megatron_core", "qalora_group_size", "fan_in_fan_out",  // by the layer's class, as PEFT decides it too
      "loftq_config", "eva_config", "corda_config", "lora_ga_config", "runtime_config"};
  const auto unset = [](const Json& value) {
    return value.is_null() || value == false || (value.is_structured() && value.empty());
  };
  std::vector<std::string> faults;
  for (const auto& [key, value] : json.items())
    if (!known.count(key) && !unset(value))
      faults.push_back(path + ": " + key + " is set, which forge does not support");
  const std::string bias = get<std::string>(json, "bias", "none", path);
  if (!enum_of<LoraBias>(bias)) faults.push_back(path + ": bias is " + bias + ", which forge does not support");
  if (!faults.empty()) throw Error(ErrorKind::environment, join(faults, "\n"));
}

// Refuses initialisations that PEFT repeats on loading, where it subtracts the initial value from
// the base weights: the tensors fit no other base.
void refuse_changed_base(const Json& json, const std::string& path) {
  static const std::set<std::string> on_plain_base{"gaussian", "eva", "orthogonal"};
  const auto init = json.find("init_lora_weights");
  if (init == json.end() || !init->is_string() || on_plain_base.count(init->get<std::string>())) return;
  throw fault(path, "init_lora_weights is " + dump_json(*init) +
                        ", so the adapter fits a changed base model, not this one")
      .hint("save it with PEFT's save_pretrained(…, path_initial_model_for_weight_conversion=…)");
}

void read_targets(const Json& json, const std::string& path, AdapterConfig& config) {
  config.target_modules = get_list<std::string>(json, "target_modules", path);
  if (json.value("target_modules", Json()).is_string()) {
    config.target_is_regex = lower(config.target_modules[0]) != "all-linear";
    if (!config.target_is_regex) config.target_modules = {"all-linear"};
  }
  config.layers_to_transform = get_list<int64_t>(json, "layers_to_transform", path);
  config.modules_to_save = get<std::vector<std::string>>(json, "modules_to_save", {}, path);
  config.exclude_is_regex = json.value("exclude_modules", Json()).is_string();
  config.exclude_modules = get_list<std::string>(json, "exclude_modules", path);
  config.target_parameters = get<std::vector<std::string>>(json, "target_parameters", {}, path);
  for (std::vector<std::string>* names : {&config.target_modules, &config.modules_to_save, &config.exclude_modules})
    std::replace(names->begin(), names->end(), std::string(kOlderHead), std::string("lm_head"));
}

void read_layers_pattern(const Json& json, const std::string& path, AdapterFile& file) {
  file.layers_pattern = get_list<std::string>(json, "layers_pattern", path);
  std::erase(file.layers_pattern, "");
  // This is as in LoraConfig.__post_init__, for which an empty list is a list.
  const bool layers = !json.value("layers_to_transform", Json()).is_null(), expression = json.value("target_modules", Json()).is_string();
  if (layers && expression) throw fault(path, "layers_to_transform is set, but target_modules is not a list: PEFT refuses that too");
  if (!file.layers_pattern.empty() && !layers) throw fault(path, "layers_pattern is set without layers_to_transform: PEFT refuses that too");
}

// Modules that PEFT ties (EMBEDDING_LAYER_NAMES); other families' names stay as they are.
constexpr const char* kTied[] = {"embed_tokens", "lm_head"};
bool names_tied(const std::string& module) {
  return std::find(std::begin(kTied), std::end(kTied), module.substr(module.rfind('.') + 1)) != std::end(kTied);
}

// Reads trainable_token_indices. A bare list means the input embedding.
void read_tokens(const Json& json, const std::string& path, AdapterConfig& config) {
  const Json tokens = json.value("trainable_token_indices", Json());
  if (tokens.is_array() && !tokens.empty())
    config.trainable_token_indices[""] = get<std::vector<int64_t>>(json, "trainable_token_indices", {}, path);
  if (tokens.is_object()) config.trainable_token_indices = get<std::map<std::string, std::vector<int64_t>>>(json, "trainable_token_indices", {}, path);
}

// Returns the last parts of the paths of embeddings and heads, of all families: embed_tokens, wte,
// embed_in …
std::set<std::string> vocabulary_leaves() {
  std::set<std::string> leaves;
  for (const Family& family : families())
    for (const std::string path : {family.modules.embedding, family.modules.head}) leaves.insert(path.substr(path.rfind('.') + 1));
  return leaves;
}

// Adds the matrices that PEFT's save_embedding_layers writes whole: modules_to_save does not name
// them, and PEFT replaces the base's matrices with them on loading.
void read_saved_embeddings(const std::string& folder, AdapterConfig& config) {
  if (!file_exists(folder + kWeights)) return;
  const std::unique_ptr<TensorFile> weights = open_adapter_weights(folder, {}, Data::optional);
  const std::set<std::string> leaves = vocabulary_leaves();
  for (const TensorInfo& tensor : weights->tensors())
    for (const std::string& leaf : leaves) {
      const auto names = [&](const std::string& saved) { return ends_with("." + tensor.name, "." + saved + ".weight"); };
      if (names(leaf) && std::none_of(config.modules_to_save.begin(), config.modules_to_save.end(), names))
        config.modules_to_save.push_back(leaf);
    }
}

std::vector<std::string> with_score(std::vector<std::string> saved) {
  std::erase(saved, "classifier");
  if (std::find(saved.begin(), saved.end(), "score") == saved.end()) saved.push_back("score");
  return saved;
}

// A job key that an adapter folder determines.
struct Decided {
  const char* key;
  void (*copy)(const AdapterConfig& from, AdapterConfig& to);
};

template <auto... members>
void copy(const AdapterConfig& from, AdapterConfig& to) {
  ((to.*members = from.*members), ...);
}

constexpr Decided kDecided[] = {
    {"adapter.rank", copy<&AdapterConfig::rank>},
    {"adapter.alpha", copy<&AdapterConfig::alpha>},
    {"adapter.use_rslora", copy<&AdapterConfig::use_rslora>},
    {"adapter.use_dora", copy<&AdapterConfig::use_dora>},
    {"adapter.rank_pattern", copy<&AdapterConfig::rank_pattern>},
    {"adapter.alpha_pattern", copy<&AdapterConfig::alpha_pattern>},
    {"adapter.target_modules",
     copy<&AdapterConfig::target_modules, &AdapterConfig::target_is_regex>},
    {"adapter.target_parameters", copy<&AdapterConfig::target_parameters>},
    {"adapter.exclude_modules",
     copy<&AdapterConfig::exclude_modules, &AdapterConfig::exclude_is_regex>},
    {"adapter.layers_to_transform", copy<&AdapterConfig::layers_to_transform>},
    {"adapter.modules_to_save", copy<&AdapterConfig::modules_to_save>},
    {"adapter.trainable_token_indices", copy<&AdapterConfig::trainable_token_indices>},
    {"adapter.bias", copy<&AdapterConfig::bias>},
};

// True if the tensors of one adapter mean the same in the other. The settings may be spelled
// differently: all-linear equals the list of all linear layers.
bool same_adapter(const ModelSpec& spec, const AdapterConfig& asked, const AdapterFile& file) {
  const std::vector<VocabularySite> own = vocabulary_sites_of(file, spec), wanted = vocabulary_sites(spec, asked);
  const auto same = [](const auto& a, const auto& b) {
    return a.module == b.module && a.rank == b.rank && std::abs(a.scale - b.scale) <= 1e-9 * std::abs(b.scale);
  };
  const auto tokens = &VocabularySite::tokens;
  const auto path = &ModuleUse::path;
  return asked.use_dora == file.config.use_dora && asked.bias == file.config.bias &&
         std::ranges::equal(wanted, own, same) && std::ranges::equal(wanted, own, {}, tokens, tokens) &&
         std::ranges::equal(saved_modules(spec, asked), saved_modules(spec, file.config), {}, path, path) &&
         std::ranges::equal(adapter_sites(spec, asked), sites_of(file, spec), same);
}

[[noreturn]] void refuse_differences(const Job& job, const AdapterFile& file) {
  Job own = job;
  std::vector<KeyFault> faults;
  for (const Decided& decided : kDecided) {
    decided.copy(file.config, own.adapter);
    const Json asked = value_of(job, decided.key), stored = value_of(own, decided.key);
    if (asked != stored)
      faults.push_back({decided.key, "is " + dump_json(asked) + ", the adapter in " + file.folder + " has " +
                                         dump_json(stored)});
  }
  throw KeyError(
      ErrorKind::job, std::move(faults),
      "leave them out to use the adapter's own, or leave out adapter.init_from to train a new adapter");
}

Json adapter_json(const std::string& folder) {
  const std::string path = config_path(folder);
  if (!is_directory(folder))
    throw Error(ErrorKind::environment, folder + ": no such folder, expected an adapter folder").hint(near_path_hint(folder));
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found)
    throw Error(ErrorKind::environment, folder + ": holds no adapter_config.json, expected the folder of a PEFT adapter")
        .hint("a run's is RUN/adapter, a checkpoint's CHECKPOINT/adapter");
  require_link_inside(path, folder);
  Json json = parse_python_json(read_file(path, kLargestConfig, ErrorKind::environment), path);
  if (!json.is_object()) throw fault(path, "expected an object");
  return json;
}

// Returns the rows of the embedding that the file needs, for a vocabulary that was made larger
// before training. 0: no more than the base's.
int64_t rows_of(const AdapterFile& file, const ModelSpec& spec) {
  int64_t rows = 0;
  for (const auto& [module, tokens] : file.config.trainable_token_indices)
    for (const int64_t token : tokens) rows = std::max(rows, std::min(token, INT64_MAX - 1) + 1);
  if (!file_exists(file.folder + kWeights)) return rows;
  const std::unique_ptr<TensorFile> weights = open_adapter_weights(file.folder, spec, Data::optional);
  for (const std::string& name : {embedding_name(spec), logits_head_name(spec)})
    if (const int64_t index = weights->find(peft_name(name)); index >= 0)
      rows = std::max(rows, weights->tensors()[static_cast<size_t>(index)].rows());
  return rows;
}

// Returns the settings as they choose modules of this model. If layers_pattern names no list of its
// layers, PEFT finds no layer numbers, and only targets that are whole paths match.
AdapterConfig settings_for(const AdapterFile& file, const ModelSpec& spec) {
  const std::string layers = outer_modules(spec).layers;  // "model.layers."
  const std::string list = layers.substr(layers.rfind('.', layers.size() - 2) + 1);
  const auto is_list = [&](const std::string& pattern) { return pattern + "." == list; };
  AdapterConfig config = file.config;
  constexpr int64_t kNoLayer = INT64_MAX;
  if (!config.layers_to_transform.empty() && !file.layers_pattern.empty() && std::none_of(file.layers_pattern.begin(), file.layers_pattern.end(), is_list))
    config.layers_to_transform = {kNoLayer};
  return config;
}

// True if target_modules names a matrix that PEFT would tie; a regex must match the bare name.
bool targets_tied(const AdapterConfig& config) {
  const std::vector<std::string>& targets = config.target_modules;
  if (!config.target_is_regex) return std::any_of(targets.begin(), targets.end(), names_tied);
  const Pattern pattern(targets.at(0), "target_modules");
  return std::any_of(std::begin(kTied), std::end(kTied), [&](const char* name) { return pattern.matches(name); });
}

// Throws Error(environment) if embedding and head would be adapted as one.
void require_no_tying(const AdapterFile& file, const ModelSpec& spec) {
  if (!file.ties_weights || !spec.tie_word_embeddings || !(file.saves_vocabulary || targets_tied(file.config))) return;
  throw fault(config_path(file.folder), "ensure_weight_tying adapts embedding and head as one, which forge does not")
      .hint("load base and adapter with PEFT, and train or serve what merge_and_unload() gives");
}

std::vector<Parameter> trained_parameters(const ModelSpec& spec, const AdapterConfig& adapter,
                                          Quantization quantization) {
  std::vector<Parameter> trained = run_parameters(spec, adapter, quantization);
  std::erase_if(trained, [](const Parameter& parameter) { return !parameter.trainable; });
  return trained;
}

// Returns the result of `select` for the file's settings; its faults are in the words of a job
// file.
template <class Select>
auto fitting(const AdapterFile& file, const ModelSpec& spec, const Select& select) {
  require_no_tying(file, spec);
  try {
    return select();
  } catch (const Error& error) {
    throw fault(config_path(file.folder), std::string("does not fit the model: ") + error.what())
        .hint("an adapter belongs to the model that it was trained on");
  }
}

// True for the base's own matrix, which PEFT stores beside factors of the embedding or the head.
bool is_base_copy(const std::string& name, const std::set<std::string>& wanted) {
  constexpr std::string_view kWrapped = ".base_layer.weight";
  if (!ends_with(name, kWrapped)) return false;
  const std::string module = name.substr(0, name.size() - kWrapped.size());
  return wanted.count(module + ".lora_embedding_A") > 0 || wanted.count(module + ".lora_A.weight") > 0;
}

}  // namespace

std::string peft_name(const std::string& parameter) {
  return starts_with(parameter, kSavedPrefix) ? parameter : kSavedPrefix + parameter;
}

std::string base_model_of(const std::string& folder) {
  return get<std::string>(adapter_json(folder), "base_model_name_or_path", "", config_path(folder));
}

AdapterFile read_adapter_config(const std::string& folder) {
  const std::string path = config_path(folder);
  const Json json = adapter_json(folder);
  refuse_other_methods(json, path);
  refuse_unknown_settings(json, path);
  refuse_changed_base(json, path);
  AdapterFile file{.folder = folder};
  AdapterConfig& config = file.config;
  config.type = AdapterType::lora;
  config.rank = get<int64_t>(json, "r", 8, path);
  config.alpha = get<double>(json, "lora_alpha", 8, path);
  config.dropout = get<double>(json, "lora_dropout", 0, path);
  config.use_rslora = get<bool>(json, "use_rslora", false, path);
  config.use_dora = get<bool>(json, "use_dora", false, path);
  config.rank_pattern = get<InOrder<int64_t>>(json, "rank_pattern", {}, path);
  config.alpha_pattern = get<InOrder<double>>(json, "alpha_pattern", {}, path);
  config.init_from = folder;
  read_targets(json, path, config);
  read_layers_pattern(json, path, file);
  file.ties_weights = get<bool>(json, "ensure_weight_tying", false, path);
  file.saves_vocabulary = std::any_of(config.modules_to_save.begin(), config.modules_to_save.end(), names_tied);
  read_tokens(json, path, config);
  read_saved_embeddings(folder, config);
  config.bias = *enum_of<LoraBias>(get<std::string>(json, "bias", "none", path));
  file.scores = get<std::string>(json, "task_type", "", path) == "SEQ_CLS";
  // PEFT lists both names that a transformers model may use for its head.
  if (file.scores) config.modules_to_save = with_score(config.modules_to_save);
  if (config.rank < 1 || config.rank > 65536)
    throw fault(path, "r is " + std::to_string(config.rank) + ", expected 1 to 65536");
  return file;
}

ModelSpec spec_for(const AdapterFile& file, const ModelSpec& spec) {
  if (spec.score_head && !file.scores)
    throw fault(config_path(file.folder), "is an adapter of a language model, and the model gives scores")
        .hint("an adapter belongs to the model that it was trained on");
  ModelSpec own = file.scores ? with_score_head(spec) : spec;
  const int64_t rows = rows_of(file, spec);
  if (rows <= own.vocab_size) return own;
  if (rows > kMostTokens)
    throw fault(config_path(file.folder), "trains the row of token " + std::to_string(rows - 1) + ", expected ids below " + format_count(kMostTokens))
        .hint("the file is damaged, or is not an adapter of a language model");
  own.base_vocab_size = own.vocab_size;
  own.vocab_size = rows;
  for (int64_t id = own.base_vocab_size; id < rows; ++id) own.added_rows.push_back({id, {}});
  return own;
}

std::vector<VocabularySite> vocabulary_sites_of(const AdapterFile& file, const ModelSpec& spec) {
  return fitting(file, spec, [&] { return vocabulary_sites(spec, settings_for(file, spec)); });
}

std::vector<AdapterSite> sites_of(const AdapterFile& file, const ModelSpec& spec) {
  return fitting(file, spec, [&] { return adapter_sites(spec, settings_for(file, spec)); });
}

std::vector<Parameter> trained_by(const AdapterFile& file, const ModelSpec& spec) {
  return fitting(file, spec, [&] {
    return trained_parameters(spec, settings_for(file, spec), Quantization::none);
  });
}

void inherit_adapter(LoadedJob& loaded) {
  AdapterConfig& adapter = loaded.job.adapter;
  if (!adapter.init_from || !file_exists(config_path(*adapter.init_from))) return;
  const AdapterFile file = read_adapter_config(*adapter.init_from);
  for (const Decided& decided : kDecided) {
    Origin& origin = loaded.origins[decided.key];
    if (origin.kind != OriginKind::unset) continue;
    decided.copy(file.config, adapter);
    origin = {OriginKind::derived, {}, "the adapter of adapter.init_from"};
  }
}

void train_score_head(LoadedJob& loaded) {
  AdapterConfig& adapter = loaded.job.adapter;
  if (loaded.job.objective.type() != ObjectiveType::reward || adapter.type != AdapterType::lora) return;
  const std::vector<std::string> saved = with_score(adapter.modules_to_save);
  if (saved == adapter.modules_to_save) return;
  adapter.modules_to_save = saved;
  Origin& origin = loaded.origins["adapter.modules_to_save"];
  if (origin.kind == OriginKind::unset) origin = {OriginKind::derived, {}, "a reward model's score head is trained whole"};
}

void check_start_adapter(const Job& job, const ModelSpec& spec, Data data) {
  if (!job.adapter.init_from) return;
  const std::string& folder = *job.adapter.init_from;
  if (!file_exists(config_path(folder)))
    throw Error(ErrorKind::environment, folder + ": holds no adapter_config.json")
        .hint("adapter.init_from is a PEFT adapter folder");
  const AdapterFile file = read_adapter_config(folder);
  if (!same_adapter(spec, job.adapter, file)) refuse_differences(job, file);
  const std::vector<Parameter> trained =
      trained_parameters(spec, job.adapter, job.model.quantization);
  check_adapter_weights(*open_adapter_weights(folder, spec, data), folder, trained);
}

std::unique_ptr<TensorFile> open_adapter_weights(const std::string& folder, const ModelSpec& spec, Data data) {
  const std::string path = folder + kWeights;
  if (!file_exists(path) && file_exists(folder + "/adapter_model.bin"))
    throw fault(folder + "/adapter_model.bin", "is a pickle, which forge does not open")
        .hint("load it with PEFT and call save_pretrained(…, safe_serialization=True)");
  std::error_code error;
  if (std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::not_found)
    throw Error(ErrorKind::environment, folder + ": holds no adapter_model.safetensors, expected it beside adapter_config.json")
        .hint("copy or download the adapter's whole folder");
  require_link_inside(path, folder);
  return current_names(spec, open_safetensors(path, data), kSavedPrefix);
}

void check_adapter_weights(const TensorFile& weights, const std::string& folder,
                           const std::vector<Parameter>& trained, int64_t widen) {
  std::vector<std::string> faults;
  std::set<std::string> wanted;
  for (const Parameter& parameter : trained) {
    const std::string name = peft_name(parameter.name);
    wanted.insert(name);
    std::vector<int64_t> shape = parameter.shape;
    if (parameter.role == Role::lora_a) shape[0] *= widen;
    if (parameter.role == Role::lora_b) shape[1] *= widen;
    const int64_t index = weights.find(name);
    if (index < 0) {
      faults.push_back("missing " + name);
      continue;
    }
    const TensorInfo& info = weights.tensors()[static_cast<size_t>(index)];
    if (info.shape != shape)
      faults.push_back(name + " is " + format_shape(info.shape) + ", expected " + format_shape(shape));
  }
  for (const TensorInfo& info : weights.tensors())
    if (!wanted.count(info.name) && !is_base_copy(info.name, wanted)) faults.push_back("extra " + info.name);
  if (faults.empty()) return;
  constexpr size_t kShown = 5;
  const size_t shown = std::min(faults.size(), kShown);
  std::string text = "does not fit its adapter_config.json and the model: " +
                     join({faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(shown)}, "; ");
  if (shown < faults.size()) text += "; and " + std::to_string(faults.size() - shown) + " more";
  throw fault(folder + kWeights, text)
      .hint("an adapter belongs to the model and the settings (r, target_modules, modules_to_save) that it was trained with");
}

}  // namespace forge
