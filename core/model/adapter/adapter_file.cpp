#include "core/model/adapter/adapter_file.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/lib/base/file.h"
#include "core/job/names.h"
#include "core/model/families/stored_file.h"
#include "core/model/families/wrapper.h"
#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/described_family.h"
#include "core/model/dtype.h"

namespace forge {
namespace {

std::vector<std::string> last_components(const std::vector<AdapterSite>& sites) {
  std::set<std::string> names;
  for (const AdapterSite& site : sites)
    if (site.experts == 0) names.insert(site.module.substr(site.module.rfind('.') + 1));
  return {names.begin(), names.end()};
}

// Returns target_modules. Like in PEFT, it is what the user gave, with "all-linear" resolved to the
// names it stands for.
Json target_json(const std::vector<AdapterSite>& sites, const AdapterConfig& adapter) {
  if (adapter.target_is_regex) return adapter.target_modules.at(0);
  bool all = adapter.target_modules == std::vector<std::string>{"all-linear"};
  return all ? last_components(sites) : adapter.target_modules;
}

// Returns trainable_token_indices in PEFT's form: a list is that of the input embedding.
Json tokens_json(const AdapterConfig& adapter) {
  const auto& tokens = adapter.trainable_token_indices;
  return tokens.size() == 1 && tokens.count("") ? Json(tokens.at("")) : Json(tokens);
}

// Returns exclude_modules. PEFT also matches names among the layers of a model's towers, which the
// adapter does not change: they are excluded, beside the job's own exclusions.
Json exclusion_json(const AdapterConfig& adapter, const ModelSpec& spec) {
  const std::string beside = towers_expression(spec);
  const bool towers = !beside.empty();
  if (adapter.exclude_modules.empty()) return towers ? Json(beside) : Json(nullptr);
  if (!towers) return adapter.exclude_is_regex ? Json(adapter.exclude_modules.at(0)) : Json(adapter.exclude_modules);
  if (adapter.exclude_is_regex) return "(" + adapter.exclude_modules.at(0) + ")|" + beside;
  std::string names;
  for (const std::string& name : adapter.exclude_modules) {
    names += names.empty() ? "" : "|";
    for (const char letter : name) names += letter == '.' ? std::string("\\.") : std::string(1, letter);
  }
  return "(.*\\.)?(" + names + ")|" + beside;
}

Json config_json(const std::vector<AdapterSite>& sites, const AdapterConfig& adapter,
                 const std::string& model_name, int64_t widen, const std::string& task, const ModelSpec& spec) {
  // The keys are PEFT's, in alphabetical order like PEFT writes them: older versions refuse unknown
  // keys.
  Json json;
  double alpha_factor = adapter.use_rslora ? std::sqrt(static_cast<double>(widen)) : static_cast<double>(widen);
  Json alpha_pattern = Json::object(), rank_pattern = Json::object();
  for (const auto& [name, alpha] : adapter.alpha_pattern) alpha_pattern[name] = alpha * alpha_factor;
  for (const auto& [name, rank] : adapter.rank_pattern) rank_pattern[name] = rank * widen;
  auto number = [](double value) { return value == std::floor(value) ? Json(static_cast<int64_t>(value)) : Json(value); };
  json["alpha_pattern"] = alpha_pattern;
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] = model_name;
  json["bias"] = name_of(adapter.bias);
  json["exclude_modules"] = exclusion_json(adapter, spec);
  json["fan_in_fan_out"] = stores_transposed(spec);
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
  if (!adapter.target_parameters.empty()) json["target_parameters"] = adapter.target_parameters;
  json["task_type"] = task;
  if (!adapter.trainable_token_indices.empty()) json["trainable_token_indices"] = tokens_json(adapter);
  json["use_dora"] = adapter.use_dora;
  json["use_rslora"] = adapter.use_rslora;
  return json;
}

std::vector<std::pair<std::string, at::Tensor>> adapter_tensors(const TrainableSet& trainables,
                                                                const ResidualInit& residual) {
  std::vector<std::pair<std::string, at::Tensor>> outputs;
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
    outputs.emplace_back(peft_name(name), value.contiguous());
  }
  return outputs;
}

// Reads every trainable tensor from the folder, at `widen` times its rank, and passes it to `take`.
template <class Take>
void read_adapter_tensors(const std::string& folder, const ModelSpec& spec, TrainableSet& trainables, int64_t widen, Take take) {
  const std::unique_ptr<TensorFile> weights = open_adapter_weights(folder, spec);
  std::vector<Parameter> trained;
  for (const Trainable& item : trainables.items()) trained.push_back(item.parameter);
  check_adapter_weights(*weights, folder, trained, widen);
  for (Trainable& item : trainables.items()) {
    const auto index = static_cast<size_t>(weights->find(peft_name(item.parameter.name)));
    at::Tensor host = at::empty(weights->tensors()[index].shape, at::kFloat);
    weights->read_f32(index, host.data_ptr<float>());
    take(item, host);
  }
}

}  // namespace

void load_adapter(const std::string& folder, const ModelSpec& spec, TrainableSet& trainables) {
  c10::NoGradGuard no_grad;
  read_adapter_tensors(folder, spec, trainables, 1,
                       [](Trainable& item, const at::Tensor& value) { item.master.copy_(value); });
}

void load_checkpoint_adapter(const std::string& folder, TrainableSet& trainables, const AdapterConfig& adapter,
                             ResidualInit* residual) {
  c10::NoGradGuard no_grad;
  // Names in a checkpoint are always the current ones.
  if (!changes_base(adapter)) return load_adapter(folder, {}, trainables);
  read_adapter_tensors(folder, {}, trainables, 2, [&](Trainable& item, const at::Tensor& value) {
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
                  const AdapterConfig& adapter, const std::string& model_name, const ResidualInit& residual, const ModelSpec& spec) {
  c10::NoGradGuard no_grad;
  const auto outputs = adapter_tensors(trainables, residual);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : outputs)
    entries.push_back({{name, tensor.sizes().vec(), DType::f32}, tensor_bytes(tensor)});
  write_safetensors(folder + "/adapter_model.safetensors", entries, {{"format", "pt"}});
  const auto& items = trainables.items();
  const bool scores = std::any_of(items.begin(), items.end(),
                                  [](const Trainable& item) { return base_name(item.parameter) == "score.weight"; });
  const std::string task = scores ? "SEQ_CLS" : spec.reads_source() ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
  Json config = config_json(sites, adapter, model_name, residual.factors.empty() ? 1 : 2, task, spec);
  write_file_durably(folder + "/adapter_config.json", config.dump(2));
  if (!spec.described.empty()) write_file_durably(folder + "/" + kFamilyFile, spec.described);
}

}  // namespace forge
