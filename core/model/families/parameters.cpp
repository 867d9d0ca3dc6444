#include "core/model/families/parameters.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "core/lib/base/text.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/family.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_config.h"

namespace forge {

int64_t Parameter::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

namespace {

constexpr std::string_view kWrappedBias = ".base_layer.bias";

bool decays(Role role) { return role != Role::norm && role != Role::bias; }

// Roles of modules' weights, by ModuleKind.
constexpr Role kRoles[] = {Role::embedding, Role::norm, Role::linear, Role::head, Role::vector, Role::experts, Role::filter};

Parameter weight_of(const ModuleUse& module) {
  const Role role = kRoles[static_cast<size_t>(module.kind)];
  std::vector<int64_t> shape{module.out};
  if (role == Role::experts)
    shape = module.out_first ? std::vector{module.experts, module.out, module.in}
                             : std::vector{module.experts, module.in, module.out};
  else if (role == Role::filter)
    shape = {module.out, 1, module.in};
  else if (role == Role::vector && module.in > 0)  // a matrix of so many rows
    shape.insert(shape.begin(), module.in);
  else if (role != Role::norm && role != Role::vector)
    shape.push_back(module.in);
  Parameter weight{weight_name(module), shape, role, module.layer, false, false, decays(role)};
  weight.quantizable = role == Role::linear && module.use == LinearUse::layer;
  weight.constant = module.constant;
  weight.copies = module.copies;
  // transformers' Trainer decays nothing whose name says bias.
  if (role == Role::vector && last_part(module.path).find("bias") != std::string::npos) weight.weight_decay = false;
  return weight;
}

Parameter bias_of(const ModuleUse& module) {
  Parameter bias{bias_name(module), {module.out}, Role::bias, module.layer, false, false, false};
  if (module.experts > 0) bias.shape.insert(bias.shape.begin(), module.experts);
  bias.copies = module.copies;
  bias.constant = module.constant;
  return bias;
}

// Adds the factors of `sites`. In each layer every A comes first: the gradients of those that read
// the same input are then one product.
void add_adapters(const std::vector<AdapterSite>& sites, bool dora, std::vector<Parameter>& parameters) {
  const auto add = [&](const AdapterSite& site, const char* name, std::vector<int64_t> shape, Role role) {
    parameters.push_back({site.adapter + name, std::move(shape), role, site.layer, true, false, decays(role)});
    parameters.back().copies = site.copies;
  };
  for (auto begin = sites.begin(); begin != sites.end();) {
    const auto end = std::find_if(begin, sites.end(), [&](const AdapterSite& site) { return site.layer != begin->layer; });
    const auto ranks = [](const AdapterSite& site) { return site.rank * std::max<int64_t>(site.experts, 1); };
    for (auto site = begin; site != end; ++site) add(*site, ".lora_A.weight", {ranks(*site), site->in_features}, Role::lora_a);
    for (; begin != end; ++begin) {
      add(*begin, ".lora_B.weight", {begin->out_features, ranks(*begin)}, Role::lora_b);
      if (dora) add(*begin, ".lora_magnitude_vector", {begin->out_features}, Role::dora_magnitude);
    }
  }
}

void add_vocabulary(const std::vector<VocabularySite>& sites, std::vector<Parameter>& parameters) {
  const auto add = [&](std::string name, std::vector<int64_t> shape, Role role) {
    parameters.push_back({std::move(name), std::move(shape), role, -1, true, false, decays(role)});
  };
  for (const VocabularySite& site : sites) {
    if (!site.tokens.empty()) add(site.rows(), {static_cast<int64_t>(site.tokens.size()), site.hidden}, Role::token_rows);
    if (site.rank == 0) continue;
    add(site.a(), {site.rank, site.embedding ? site.vocabulary : site.hidden}, Role::lora_a);
    add(site.b(), {site.embedding ? site.hidden : site.vocabulary, site.rank}, Role::lora_b);
  }
}

// Adds the biases of adapted layers, or of every module. They are trained in place of the base's.
// PEFT's files name a bias of an adapted layer as the wrapped layer's.
void add_biases(const std::vector<ModuleUse>& modules, const std::vector<AdapterSite>& sites,
                bool all, std::vector<Parameter>& parameters) {
  std::set<std::string> adapted;
  for (const AdapterSite& site : sites) adapted.insert(site.module);
  for (const ModuleUse& module : modules) {
    const bool wrapped = adapted.count(module.path) > 0;
    if (!module.bias || !(all || wrapped)) continue;
    Parameter bias = bias_of(module);
    bias.name = kSavedPrefix + (wrapped ? module.path + std::string(kWrappedBias) : bias.name);
    bias.trainable = true;
    parameters.push_back(std::move(bias));
  }
}

// Adds copies of a module that is trained whole beside its frozen original:
// "base_model.model.lm_head.weight".
void add_saved_copy(const ModuleUse& module, std::vector<Parameter>& parameters) {
  std::vector<Parameter> copies{weight_of(module)};
  if (module.bias) copies.push_back(bias_of(module));
  for (Parameter& copy : copies) {
    copy.name = kSavedPrefix + copy.name;
    copy.trainable = true;
    parameters.push_back(std::move(copy));
  }
}

// Marks the originals of trained copies.
void mark_replaced(std::vector<Parameter>& parameters) {
  std::set<std::string> names;
  for (const Parameter& parameter : parameters)
    if (starts_with(parameter.name, kSavedPrefix)) names.insert(base_name(parameter));
  if (names.empty()) return;
  for (Parameter& parameter : parameters) parameter.replaced = names.count(parameter.name) > 0;
}

// True if two tensors of layers are equal in all that is counted.
bool counted_alike(const Parameter& a, const Parameter& b) {
  const auto counted = [](const Parameter& p) {
    return std::tuple(p.role, p.layer >= 0, p.trainable, p.quantized, p.weight_decay, p.quantizable,
                      p.constant, p.replaced);
  };
  return counted(a) == counted(b) && a.shape == b.shape &&
         starts_with(a.name, kSavedPrefix) == starts_with(b.name, kSavedPrefix);
}

std::vector<Parameter> parameters_of(const std::vector<ModuleUse>& modules, const ModelSpec& spec) {
  std::vector<Parameter> parameters;
  for (const ModuleUse& module : modules) {
    const bool shared = module.kind == ModuleKind::head && spec.tie_word_embeddings;  // the embedding's own tensor
    if (!shared) parameters.push_back(weight_of(module));
    if (module.bias) parameters.push_back(bias_of(module));
  }
  return parameters;
}

}  // namespace

std::vector<Parameter> base_parameters(const ModelSpec& spec, Experts experts) {
  return parameters_of(modules_of(spec, experts), spec);
}

std::vector<Parameter> run_parameters(const ModelSpec& spec, const AdapterConfig& adapter,
                                      Quantization quantization, Experts experts) {
  const std::vector<ModuleUse> modules = modules_for(spec, adapter, experts);
  std::vector<Parameter> parameters = parameters_of(modules, spec);
  const KeptModules kept(quantization == Quantization::fp8 ? std::vector<std::string>()
                                                           : spec.kept_modules);
  const auto stays_plain = [&](const Parameter& parameter) {
    return kept.has(parameter.name.substr(0, parameter.name.rfind('.')));
  };
  for (Parameter& parameter : parameters) {
    parameter.trainable = adapter.type == AdapterType::none && !parameter.constant;
    parameter.quantized =
        quantization != Quantization::none && parameter.quantizable && !stays_plain(parameter);
  }
  if (adapter.type == AdapterType::none) return parameters;
  const auto [sites, vocabulary] = adapter_places(spec, adapter, experts);
  add_adapters(sites, adapter.use_dora, parameters);
  if (adapter.bias != LoraBias::none)
    add_biases(modules, sites, adapter.bias == LoraBias::all, parameters);
  add_vocabulary(vocabulary, parameters);
  for (const ModuleUse& module : saved_modules(spec, adapter, experts)) {
    // A module that is trained whole starts from its full weight, and its frozen original stays as
    // it is.
    for (Parameter& parameter : parameters)
      if (parameter.name == module.path + ".weight") parameter.quantized = false;
    add_saved_copy(module, parameters);
  }
  mark_replaced(parameters);
  return parameters;
}

std::vector<Parameter> parameter_rows(const ModelSpec& spec, const AdapterConfig& adapter,
                                      Quantization quantization) {
  std::vector<Parameter> rows;
  for (Parameter& parameter : run_parameters(spec, adapter, quantization, Experts::in_rows)) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Parameter& other) {
      return parameter.layer >= 0 && counted_alike(other, parameter);
    });
    if (row == rows.end())
      rows.push_back(std::move(parameter));
    else
      row->copies += parameter.copies;
  }
  return rows;
}

ModelSpec merged_spec(const ModelSpec& spec, const AdapterConfig& adapter) {
  ModelSpec merged = spec;
  if (!spec.tie_word_embeddings || adapter.type == AdapterType::none) return merged;
  for (const VocabularySite& site : vocabulary_sites(spec, adapter))
    if (site.tokens.empty()) merged.tie_word_embeddings = false;
  for (const ModuleUse& module : saved_modules(spec, adapter, Experts::in_rows))
    if (module.kind == ModuleKind::embedding || module.kind == ModuleKind::head) merged.tie_word_embeddings = false;
  return merged;
}

std::string base_name(const Parameter& parameter) {
  using enum Role;
  for (const Role own : {lora_a, lora_b, dora_magnitude, token_rows})
    if (parameter.role == own) return "";
  if (!starts_with(parameter.name, kSavedPrefix)) return parameter.name;
  std::string name = parameter.name.substr(std::string_view(kSavedPrefix).size());
  if (ends_with(name, kWrappedBias)) name = name.substr(0, name.size() - kWrappedBias.size()) + ".bias";
  return name;
}

int64_t frozen_embedding_row(const ModelSpec& spec) {
  return spec.pad_token_id < spec.vocab_size && family_of(spec).padding_row ? spec.pad_token_id : -1;
}

ParameterCounts count_parameters(const std::vector<Parameter>& parameters) {
  ParameterCounts counts;
  for (const Parameter& parameter : parameters) {
    counts.total += parameter.total();
    if (parameter.trainable) counts.trainable += parameter.total();
  }
  return counts;
}

}  // namespace forge
