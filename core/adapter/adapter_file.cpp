#include "core/adapter/adapter_file.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <set>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/tensor/dtype.h"

namespace forge {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

std::string peft_name(const std::string& parameter) {
  return starts_with(parameter, kPrefix) ? parameter : std::string(kPrefix) + parameter;
}

// The value of a key, or an error in the file's terms when it has another type.
template <class T>
T get(const Json& json, const char* key, T otherwise, const std::string& path) {
  auto found = json.find(key);
  if (found == json.end() || found->is_null()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::environment, path + ": " + key + ": has the wrong type: " + dump_json(*found).substr(0, 60));
  }
}

std::vector<std::string> last_components(const std::vector<AdapterSite>& sites) {
  std::set<std::string> names;
  for (const AdapterSite& site : sites) names.insert(site.module.substr(site.module.rfind('.') + 1));
  return {names.begin(), names.end()};
}

// As PEFT: what the user gave, "all-linear" resolved to the names it stands for.
Json target_json(const std::vector<AdapterSite>& sites, const AdapterConfig& adapter) {
  if (adapter.target_is_regex) return adapter.target_modules.at(0);
  bool all = adapter.target_modules == std::vector<std::string>{"all-linear"};
  return all ? last_components(sites) : adapter.target_modules;
}

Json config_json(const std::vector<AdapterSite>& sites, const AdapterConfig& adapter, const ModelConfig& model,
                 int64_t widen) {
  // Keys in alphabetical order and this set of them, as PEFT writes: older versions refuse keys they do not know.
  Json json;
  double alpha_factor = adapter.use_rslora ? std::sqrt(static_cast<double>(widen)) : static_cast<double>(widen);
  Json alpha_pattern = Json::object(), rank_pattern = Json::object();
  for (const auto& [name, alpha] : adapter.alpha_pattern) alpha_pattern[name] = alpha * alpha_factor;
  for (const auto& [name, rank] : adapter.rank_pattern) rank_pattern[name] = rank * widen;
  auto number = [](double value) { return value == std::floor(value) ? Json(static_cast<int64_t>(value)) : Json(value); };
  json["alpha_pattern"] = alpha_pattern;
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] = model.path;
  json["bias"] = "none";
  json["exclude_modules"] = adapter.exclude_modules.empty() ? Json(nullptr) : Json(adapter.exclude_modules);
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  json["layers_pattern"] = nullptr;
  json["layers_to_transform"] = adapter.layers_to_transform.empty() ? Json(nullptr) : Json(adapter.layers_to_transform);
  json["lora_alpha"] = number(adapter.alpha * alpha_factor);
  json["lora_dropout"] = number(adapter.dropout);
  json["modules_to_save"] = adapter.modules_to_save.empty() ? Json(nullptr) : Json(adapter.modules_to_save);
  json["peft_type"] = "LORA";
  json["r"] = adapter.rank * widen;
  json["rank_pattern"] = rank_pattern;
  json["revision"] = nullptr;
  json["target_modules"] = target_json(sites, adapter);
  json["task_type"] = "CAUSAL_LM";
  json["use_dora"] = adapter.use_dora;
  json["use_rslora"] = adapter.use_rslora;
  return json;
}

struct Output {
  std::string name;
  at::Tensor tensor;
};

std::vector<Output> adapter_tensors(const TrainableSet& trainables, const ResidualInit& residual) {
  std::vector<Output> outputs;
  for (const Trainable& item : trainables.items()) {
    at::Tensor value = item.master.to(at::kCPU, at::kFloat).contiguous();
    std::string name = item.parameter.name;
    size_t dot = name.rfind(".lora_");
    auto factors = dot == std::string::npos ? residual.factors.end() : residual.factors.find(name.substr(0, dot));
    if (factors != residual.factors.end()) {
      // scale (B A − B₀ A₀) = scale [B, −B₀] [A; A₀]
      if (item.parameter.role == Role::lora_a) value = at::cat({value, factors->second.first}, 0);
      if (item.parameter.role == Role::lora_b) value = at::cat({value, factors->second.second.neg()}, 1);
    }
    outputs.push_back({peft_name(name), value.contiguous()});
  }
  return outputs;
}

// Settings that change what an adapter computes, now or in a later PEFT, are anything but null, false or empty.
void refuse_other_adapters(const Json& json, const std::string& path) {
  static const std::set<std::string> known{
      // read below
      "peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern",
      "modules_to_save", "exclude_modules", "layers_to_transform", "target_modules", "init_lora_weights", "bias",
      // provenance, and settings of an initialisation that is over
      "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode",
      "layers_pattern", "megatron_core", "qalora_group_size", "loftq_config", "eva_config", "corda_config",
      "lora_ga_config", "runtime_config"};
  auto unset = [](const Json& value) { return value.is_null() || value == false || (value.is_structured() && value.empty()); };
  std::vector<std::string> faults;
  for (const auto& [key, value] : json.items())
    if (!known.count(key) && !unset(value)) faults.push_back(path + ": " + key + " is set, which forge does not support");
  if (get<std::string>(json, "bias", "none", path) != "none")
    faults.push_back(path + ": bias is not none, which forge does not support");
  if (!faults.empty()) throw Error(ErrorKind::environment, join(faults, "\n"));
  // PEFT repeats these on loading and takes the start out of the base weights: the tensors fit no other base.
  auto init = json.find("init_lora_weights");
  static const std::set<std::string> on_plain_base{"gaussian", "eva", "orthogonal"};
  if (init != json.end() && init->is_string() && !on_plain_base.count(init->get<std::string>()))
    throw Error(ErrorKind::environment, path + ": init_lora_weights is " + dump_json(*init) +
                                            ", so the adapter fits a changed base model, not this one")
        .hint("save it with PEFT's save_pretrained(…, path_initial_model_for_weight_conversion=…)");
}

}  // namespace

AdapterFile read_adapter_config(const std::string& folder) {
  std::string path = folder + "/adapter_config.json";
  Json json = parse_json(read_file(path, 1 << 20, ErrorKind::environment), path, ErrorKind::environment);
  if (!json.is_object()) throw Error(ErrorKind::environment, path + ": expected an object");
  if (get<std::string>(json, "peft_type", "", path) != "LORA")
    throw Error(ErrorKind::environment, path + ": peft_type is not LORA; forge reads LoRA adapters");
  refuse_other_adapters(json, path);
  AdapterFile file{.folder = folder};
  AdapterConfig& config = file.config;
  config.type = AdapterType::lora;
  config.rank = get<int64_t>(json, "r", 8, path);
  config.alpha = get<double>(json, "lora_alpha", 8, path);
  config.dropout = get<double>(json, "lora_dropout", 0, path);
  config.use_rslora = get<bool>(json, "use_rslora", false, path);
  config.use_dora = get<bool>(json, "use_dora", false, path);
  config.rank_pattern = get<std::map<std::string, int64_t>>(json, "rank_pattern", {}, path);
  config.alpha_pattern = get<std::map<std::string, double>>(json, "alpha_pattern", {}, path);
  config.modules_to_save = get<std::vector<std::string>>(json, "modules_to_save", {}, path);
  config.exclude_modules = get<std::vector<std::string>>(json, "exclude_modules", {}, path);
  if (json.contains("layers_to_transform") && json["layers_to_transform"].is_number_integer())
    config.layers_to_transform = {json["layers_to_transform"].get<int64_t>()};
  else
    config.layers_to_transform = get<std::vector<int64_t>>(json, "layers_to_transform", {}, path);
  if (json.contains("target_modules") && json["target_modules"].is_string()) {
    config.target_modules = {json["target_modules"].get<std::string>()};
    config.target_is_regex = config.target_modules[0] != "all-linear";
  } else {
    config.target_modules = get<std::vector<std::string>>(json, "target_modules", {}, path);
  }
  if (config.rank < 1 || config.rank > 65536) throw Error(ErrorKind::environment, path + ": r: " + std::to_string(config.rank) + " is outside [1, 65536]");
  return file;
}

std::vector<AdapterSite> sites_of(const AdapterFile& file, const ModelSpec& spec) {
  try {
    return adapter_sites(spec, file.config);
  } catch (const Error& error) {  // in a job's words
    throw Error(ErrorKind::environment, file.folder + "/adapter_config.json: does not fit the model: " + error.what());
  }
}

void require_scale_of(const std::string& folder, const ModelSpec& spec, const std::vector<AdapterSite>& sites) {
  const std::vector<AdapterSite> own = sites_of(read_adapter_config(folder), spec);
  for (const AdapterSite& site : sites)
    for (const AdapterSite& other : own)
      if (site.module == other.module && std::abs(site.scale - other.scale) > 1e-9 * other.scale)
        throw Error(ErrorKind::environment, folder + "/adapter_config.json: multiplies the update of " + site.module + " by " +
                                                format_number(other.scale) + ", the job by " + format_number(site.scale))
            .hint("alpha, rank, alpha_pattern and use_rslora must be the adapter's own: alpha " + format_number(other.alpha) +
                  " here");
}

namespace {

// Reads every trainable from the folder's tensors with `widen` times its rank, and hands the tensor to `take`.
template <class Take>
void read_adapter_tensors(const std::string& folder, TrainableSet& trainables, int64_t widen, Take take) {
  std::string path = folder + "/adapter_model.safetensors";
  if (!file_exists(path) && file_exists(folder + "/adapter_model.bin"))
    throw Error(ErrorKind::environment, folder + "/adapter_model.bin: is a pickle, which forge does not open")
        .hint("load it with PEFT and call save_pretrained(…, safe_serialization=True)");
  auto file = open_safetensors(path);
  std::vector<std::string> faults;
  std::set<std::string> wanted;
  for (Trainable& item : trainables.items()) {
    std::string name = peft_name(item.parameter.name);
    wanted.insert(name);
    std::vector<int64_t> shape = item.parameter.shape;
    if (item.parameter.role == Role::lora_a) shape[0] *= widen;
    if (item.parameter.role == Role::lora_b) shape[1] *= widen;
    int64_t index = file->find(name);
    if (index < 0) {
      faults.push_back("missing " + name);
      continue;
    }
    const TensorInfo& info = file->tensors()[static_cast<size_t>(index)];
    if (info.shape != shape) {
      faults.push_back(name + " is " + format_shape(info.shape) + ", expected " + format_shape(shape));
      continue;
    }
    at::Tensor host = at::empty(shape, at::kFloat);
    file->read_f32(static_cast<size_t>(index), host.data_ptr<float>());
    take(item, host);
  }
  for (const TensorInfo& info : file->tensors())
    if (!wanted.count(info.name)) faults.push_back("extra " + info.name);
  if (faults.empty()) return;
  size_t shown = std::min<size_t>(faults.size(), 5);
  std::string text = path + ": does not fit the job's adapter: " +
                     join({faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(shown)}, "; ");
  if (shown < faults.size()) text += "; and " + std::to_string(faults.size() - shown) + " more";
  throw Error(ErrorKind::environment, text).hint("rank, target_modules and modules_to_save must be the adapter's own");
}

}  // namespace

void load_adapter(const std::string& folder, TrainableSet& trainables) {
  c10::NoGradGuard no_grad;
  read_adapter_tensors(folder, trainables, 1,
                       [](Trainable& item, const at::Tensor& value) { item.master.copy_(value); });
}

void load_checkpoint_adapter(const std::string& folder, TrainableSet& trainables, const AdapterConfig& adapter,
                             ResidualInit* residual) {
  c10::NoGradGuard no_grad;
  if (adapter.init != LoraInit::pissa || adapter.init_from) return load_adapter(folder, trainables);
  read_adapter_tensors(folder, trainables, 2, [&](Trainable& item, const at::Tensor& value) {
    if (item.parameter.role != Role::lora_a && item.parameter.role != Role::lora_b) {
      item.master.copy_(value);
      return;
    }
    bool is_a = item.parameter.role == Role::lora_a;
    int64_t dim = is_a ? 0 : 1, rank = item.parameter.shape[static_cast<size_t>(dim)];
    item.master.copy_(value.narrow(dim, 0, rank));
    auto& factors = residual->factors[item.parameter.name.substr(0, item.parameter.name.rfind(".lora_"))];
    at::Tensor second = value.narrow(dim, rank, rank).contiguous();
    (is_a ? factors.first : factors.second) = is_a ? second : second.neg();
  });
}

void save_adapter(const std::string& folder, const TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                  const AdapterConfig& adapter, const ModelConfig& model, const ResidualInit& residual) {
  c10::NoGradGuard no_grad;
  std::vector<Output> outputs = adapter_tensors(trainables, residual);
  std::vector<SafetensorsEntry> entries;
  for (const Output& output : outputs)
    entries.push_back({{output.name, output.tensor.sizes().vec(), DType::f32}, tensor_bytes(output.tensor)});
  write_safetensors(folder + "/adapter_model.safetensors", entries, {{"format", "pt"}});
  Json config = config_json(sites, adapter, model, residual.factors.empty() ? 1 : 2);
  write_file_durably(folder + "/adapter_config.json", config.dump(2));
}

}  // namespace forge
