// The rules are PEFT's (tuners_utils.check_target_module_exists and get_pattern_key), so that a
// saved adapter_config.json selects the same modules there.
#include "core/model/families/adapter_sites.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/job/names.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/family.h"
#include "core/model/families/module_names.h"
#include "core/model/families/modules.h"
#include "core/model/families/pattern.h"

namespace forge {
namespace {

bool all_linear(const AdapterConfig& adapter) {
  return adapter.target_modules.size() == 1 && lower(adapter.target_modules[0]) == "all-linear";
}

bool excluded(const AdapterConfig& adapter, const std::string& path) {
  if (adapter.exclude_is_regex) return Pattern(adapter.exclude_modules.at(0), "adapter.exclude_modules").matches(path);
  return std::ranges::any_of(adapter.exclude_modules,
                             [&](const std::string& name) { return names_module(name, path); });
}

// True if modules_to_save names the module. Such a module has no adapter.
bool kept_whole(const AdapterConfig& adapter, const std::string& path) {
  return std::ranges::any_of(adapter.modules_to_save,
                             [&](const std::string& name) { return has_part(name, path); });
}

bool layer_wanted(const AdapterConfig& adapter, int64_t layer) {
  const std::vector<int64_t>& wanted = adapter.layers_to_transform;
  return wanted.empty() || std::ranges::find(wanted, layer) != wanted.end();
}

// Decides for one module which of the targets matches it: their index, or -1.
class Targets {
 public:
  explicit Targets(const AdapterConfig& adapter) : adapter_(adapter) {
    if (!adapter.target_is_regex) return;
    if (!adapter.layers_to_transform.empty())
      throw KeyError(ErrorKind::job, "adapter.layers_to_transform",
                     "cannot be combined with a regex in target_modules",
                     "name the layers in the regex, or list the modules by name");
    for (const std::string& expression : adapter.target_modules)
      patterns_.emplace_back(expression, "adapter.target_modules");
  }

  int64_t match(const ModuleUse& module) const {
    if (all_linear(adapter_))
      return adaptable(module) && layer_wanted(adapter_, module.layer) ? 0 : -1;
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (patterns_[i].matches(module.path)) return static_cast<int64_t>(i);
    for (size_t i = 0; i < adapter_.target_modules.size() && patterns_.empty(); ++i) {
      const std::string& target = adapter_.target_modules[i];
      // PEFT applies layers_to_transform to suffixes, never to a path written out.
      if (module.path == target || (names_module(target, module.path) && layer_wanted(adapter_, module.layer)))
        return static_cast<int64_t>(i);
    }
    return -1;
  }

 private:
  const AdapterConfig& adapter_;
  std::vector<Pattern> patterns_;
};

// Values of rank_pattern or alpha_pattern: the first key that matches at the end of the path on a
// dot boundary.
template <class Value>
class Overrides {
 public:
  Overrides(const InOrder<Value>& table, const std::string& key) : key_(key) {
    for (const auto& [name, value] : table)
      rows_.push_back({name, Pattern(pattern_of_key(name), key), value, false, {}});
  }
  Value find(const std::string& path, Value otherwise) {
    const Row* first = nullptr;
    for (Row& row : rows_) {
      if (!row.pattern.matches(path)) continue;
      if (first) {
        row.taken_by = first->key;
        continue;
      }
      row.used = true;
      first = &row;
    }
    return first ? first->value : otherwise;
  }
  void collect_unused(std::vector<KeyFault>& faults) const {
    for (const Row& row : rows_)
      if (!row.used)
        faults.push_back({key_, "\"" + row.key + "\" " + (row.taken_by.empty() ? "matches no adapted module"
                                                                              : "has no effect: \"" + row.taken_by + "\" comes before it and matches first; write the narrower key first")});
  }

 private:
  struct Row {
    std::string key;
    Pattern pattern;
    Value value;
    bool used;
    std::string taken_by;  // a key before it that matches all it does
  };
  std::string key_;
  std::vector<Row> rows_;
};

std::string known_modules(const ModelSpec& spec) {
  const size_t prefix = std::string(outer_modules(spec).layers).size() + 2;  // and "0."
  std::vector<std::string> known;
  for (const ModuleUse& module : modules_of(spec))
    if (adaptable(module) && module.layer == spec.encoder_layers) known.push_back(module.path.substr(prefix));
  return join(known, ", ");
}

void name_missing_layers(const ModelSpec& spec, const AdapterConfig& adapter, std::vector<KeyFault>& faults) {
  for (int64_t layer : adapter.layers_to_transform)
    if (layer < 0 || layer >= spec.num_layers)
      faults.push_back({"adapter.layers_to_transform", "layer " + std::to_string(layer) +
                                                           " does not exist, the model has 0 to " +
                                                           std::to_string(spec.num_layers - 1)});
}

void require_layers(const ModelSpec& spec, const AdapterConfig& adapter, std::vector<KeyFault>& faults) {
  if (spec.reads_source() && !adapter.layers_to_transform.empty())
    return faults.push_back({"adapter.layers_to_transform", "numbers do not say whether the encoder's or the decoder's layers are meant; "
                                                            "name them in a regex of adapter.target_modules"});
  if (!adapter.init_from) name_missing_layers(spec, adapter, faults);  // PEFT passes over numbers of no layer
}

// Names the adapters of joined experts as PEFT does. PEFT wraps the module that holds a targeted
// parameter, and wraps the wrapper again for the next parameter. With gate_up_proj and down_proj of
// "mlp.experts", in that order, the outer adapter is down_proj's, and gate_up_proj's is that of
// "mlp.experts.base_layer".
void name_joined_adapters(std::vector<AdapterSite>& sites) {
  std::map<std::string, std::string> next;  // by the module that holds them
  for (size_t i = sites.size(); i-- > 0;) {
    if (sites[i].experts == 0) continue;
    const std::string holder = sites[i].module.substr(0, sites[i].module.rfind('.'));
    std::string& name = next.try_emplace(holder, holder).first->second;
    sites[i].adapter = name;
    name += ".base_layer";
  }
}

bool targets_parameter(const AdapterConfig& adapter, const std::string& path, std::vector<bool>& used) {
  bool wanted = false;
  for (size_t i = 0; i < adapter.target_parameters.size(); ++i)
    if (names_module(adapter.target_parameters[i], path)) wanted = used[i] = true;
  return wanted;
}

void refuse_unused_parameters(const AdapterConfig& adapter, const std::vector<bool>& used, std::vector<KeyFault>& faults) {
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i] && !adapter.init_from)  // PEFT passes over them
      faults.push_back({"adapter.target_parameters", '"' + adapter.target_parameters[i] +
                                                         "\" names no tensor that holds all experts of a layer (as gpt-oss's mlp.experts.down_proj)"});
  // PEFT has the same limits: A's input cannot be masked where A and B are added to the weight.
  if (adapter.target_parameters.empty()) return;
  if (adapter.dropout > 0) faults.push_back({"adapter.dropout", "cannot be combined with target_parameters"});
  if (adapter.use_dora) faults.push_back({"adapter.use_dora", "cannot be combined with target_parameters"});
  if (adapter.init != LoraInit::standard && adapter.init != LoraInit::gaussian)
    faults.push_back({"adapter.init", name_of(adapter.init) + " cannot be combined with target_parameters"});
}

struct Selection {
  std::vector<AdapterSite> sites;
  std::vector<VocabularySite> vocabulary;  // places with factors
  std::vector<TargetMatch> targets;  // without PEFT's numbers
  std::vector<bool> used;            // targets that match a module, also an excluded one (PEFT writes both lists)

  bool any() const { return !sites.empty() || !vocabulary.empty(); }
};

void refuse_unused_targets(const ModelSpec& spec, const AdapterConfig& adapter, const Selection& selection,
                           std::vector<KeyFault>& faults) {
  if (selection.any() && adapter.init_from) return;  // PEFT wrote these names, and passes over those that match nothing
  if (adapter.init_from) name_missing_layers(spec, adapter, faults);
  std::vector<std::string> leaves;
  for (size_t i = 0; i < adapter.target_modules.size(); ++i) {
    if (selection.targets[i].modules > 0 || (selection.used[i] && selection.any())) continue;
    const std::string& target = adapter.target_modules[i];
    if (leaves.empty())
      for (const ModuleUse& module : modules_of(spec)) leaves.push_back(module.path.substr(module.path.rfind('.') + 1));
    faults.push_back(
        {"adapter.target_modules",
         "\"" + target + "\" matches no linear layer" +
             (adapter.target_is_regex                                              ? " (it must match the whole path)"
              : std::find(leaves.begin(), leaves.end(), target) != leaves.end() ? " of adapter.layers_to_transform"
                                                                                 : did_you_mean(target, leaves))});
  }
}

// PEFT trains, and saves, every parameter with "bias" in its name. A model in which these are more
// than biases of layers (T5's distances, the correction of DeepSeek's router, joined experts) is
// refused.
void refuse_odd_biases(const ModelSpec& spec, const AdapterConfig& adapter, Experts experts,
                       std::vector<KeyFault>& faults) {
  for (const ModuleUse& module : modules_of(spec, experts)) {
    if (module.path.find("bias") != std::string::npos)
      return faults.push_back({"adapter.bias", "all would train " + module.path + ", which is not the bias of a layer"});
    if (module.bias && module.experts > 0)
      return faults.push_back({"adapter.bias", "all would train the biases of joined experts, " + bias_name(module)});
    if (module.bias && kept_whole(adapter, module.path))
      return faults.push_back({"adapter.bias", "all would train the bias of " + module.path + " twice: modules_to_save has it"});
  }
}

// EVA looks at the tokens that a layer reads. An expert reads only those that its router sends.
void refuse_single_experts(const std::vector<AdapterSite>& sites, std::vector<KeyFault>& faults) {
  for (const AdapterSite& site : sites)
    if (site.module.find(".experts.") != std::string::npos)
      return faults.push_back({"adapter.init", "eva is computed for layers that read every token, not for " + site.module});
}

// PiSSA and LoftQ start from singular vectors, OLoRA from its orthogonal factor, EVA from
// directions of the input. There must be as many of them as ranks. Only the first faulty layer is
// named.
void require_directions(const std::vector<AdapterSite>& sites, LoraInit init, std::vector<KeyFault>& faults) {
  for (const AdapterSite& site : sites) {
    const int64_t found = init == LoraInit::eva ? site.in_features : std::min(site.in_features, site.out_features);
    if (site.rank <= found) continue;
    const char* directions = init == LoraInit::olora ? " orthogonal columns in "
                             : init == LoraInit::eva ? " directions in what is read by "
                                                     : " singular vectors in ";
    faults.push_back({"adapter.init", name_of(init) + " finds " + std::to_string(found) + directions + site.module +
                                          ", fewer than rank " + std::to_string(site.rank)});
    return;
  }
}

// Refuses settings that are defined for linear layers alone.
void refuse_for_vocabulary(const AdapterConfig& adapter, const std::string& module, std::vector<KeyFault>& faults) {
  const auto fault = [&](const char* key, const std::string& what) { faults.push_back({key, what + " for linear layers, not for " + module}); };
  if (adapter.use_dora) fault("adapter.use_dora", "magnitudes are computed");
  if (adapter.init_from) return;
  if (adapter.init != LoraInit::standard) fault("adapter.init", name_of(adapter.init) + " is computed");
  if (adapter.lora_plus_ratio != 1) fault("adapter.lora_plus_ratio", "another rate for B is known");
}

int64_t parameters_of(const AdapterSite& site, const AdapterConfig& adapter) {
  return site.copies * (site.rank * (site.in_features + site.out_features) +
                        (adapter.use_dora ? site.out_features : 0));
}

KeyFault no_linear_layer(const std::string& path) {
  return {"adapter.target_modules", path + " is not a linear layer (modules_to_save trains it whole)"};
}

AdapterSite site_of(const ModuleUse& module, Overrides<int64_t>& ranks, Overrides<double>& alphas, const AdapterConfig& adapter,
                    std::vector<KeyFault>& faults) {
  AdapterSite site{module.path, module.path, module.layer, module.in, module.out};
  site.experts = module.experts, site.copies = module.copies;
  site.rank = ranks.find(module.path, adapter.rank);
  site.alpha = alphas.find(module.path, adapter.alpha);
  const double rank = static_cast<double>(site.rank);
  site.scale = site.alpha / (adapter.use_rslora ? std::sqrt(rank) : rank);
  if (site.rank < 1)
    faults.push_back({"adapter.rank_pattern", "rank " + std::to_string(site.rank) + " of " + module.path});
  return site;
}

// Joined experts that a target names, and that target. To PEFT they are no modules, so it passes
// over them where the target names others too.
using NamedExperts = std::vector<std::pair<std::string, int64_t>>;

void refuse_experts_alone(const NamedExperts& experts, Selection& selection, std::vector<KeyFault>& faults) {
  const std::vector<TargetMatch> others = selection.targets;
  for (const auto& [path, target] : experts) {
    if (others[static_cast<size_t>(target)].modules > 0) continue;
    faults.push_back(no_linear_layer(path));
    selection.targets[static_cast<size_t>(target)].modules += 1;
  }
}

Selection select(const ModelSpec& spec, const AdapterConfig& adapter, Experts experts) {
  Selection selection;
  for (const std::string& target : adapter.target_modules) selection.targets.push_back({target});
  selection.used.assign(adapter.target_modules.size(), false);
  if (adapter.type == AdapterType::none) return selection;
  const Targets targets(adapter);
  Overrides<int64_t> ranks(adapter.rank_pattern, "adapter.rank_pattern");
  Overrides<double> alphas(adapter.alpha_pattern, "adapter.alpha_pattern");
  std::vector<KeyFault> faults;
  require_layers(spec, adapter, faults);
  std::vector<bool> used_parameters(adapter.target_parameters.size(), false);
  int64_t turned = 0;
  NamedExperts named;
  for (const ModuleUse& module : modules_for(spec, adapter, experts)) {
    if (kept_whole(adapter, module.path)) continue;
    const bool joined = module.kind == ModuleKind::experts && targets_parameter(adapter, module.path, used_parameters);
    if (joined && module.use == LinearUse::turned_experts) {
      if (turned++ == 0) faults.push_back({"adapter.target_parameters", module.path + " has its A and B in each other's places in PEFT's files, which forge does not write"});
      continue;
    }
    const int64_t target = joined ? -1 : targets.match(module);
    if (!joined && target < 0) continue;
    if (!joined) selection.used[target] = true;
    if (!joined && excluded(adapter, module.path)) continue;
    if (!joined && module.kind == ModuleKind::experts) {
      named.push_back({module.path, target});
      continue;
    }
    const bool vocabulary = module.kind == ModuleKind::head || module.path + ".weight" == embedding_name(spec);
    if (!joined && ((module.kind != ModuleKind::linear && !vocabulary) || module.path == kScoreModule)) {
      faults.push_back(no_linear_layer(module.path));
      selection.targets[target].modules += 1;
      continue;
    }
    AdapterSite site = site_of(module, ranks, alphas, adapter, faults);
    if (!joined) selection.targets[target].modules += site.copies;
    if (!joined) selection.targets[target].parameters += parameters_of(site, adapter);
    if (vocabulary)
      selection.vocabulary.push_back({module.path, module.kind != ModuleKind::head, spec.vocab_size, spec.hidden_size, site.rank, site.alpha, site.scale, {}});
    else
      selection.sites.push_back(std::move(site));
  }
  // PEFT finds no layer of such a name, and passes over it.
  if (!adapter.init_from) refuse_experts_alone(named, selection, faults);
  name_joined_adapters(selection.sites);
  refuse_unused_parameters(adapter, used_parameters, faults);
  if (adapter.bias == LoraBias::all) refuse_odd_biases(spec, adapter, experts, faults);
  if (starts_from_data(adapter)) refuse_single_experts(selection.sites, faults);
  if (changes_base(adapter) || starts_from_data(adapter) || (adapter.init == LoraInit::loftq && !adapter.init_from))
    require_directions(selection.sites, adapter.init, faults);
  refuse_unused_targets(spec, adapter, selection, faults);
  if (!selection.vocabulary.empty()) refuse_for_vocabulary(adapter, selection.vocabulary[0].module, faults);
  if (selection.any() && !adapter.init_from) ranks.collect_unused(faults);
  if (selection.any() && !adapter.init_from) alphas.collect_unused(faults);
  if (faults.empty()) return selection;
  if (experts == Experts::in_rows)
    return select(spec, adapter, Experts::one_by_one);  // faults name each expert
  throw KeyError(ErrorKind::job, std::move(faults),
                 "the linear layers are " + known_modules(spec) + "; or write all-linear");
}

// True if trainable_token_indices' `name` means this module: "" is the embedding, other names are
// suffixes.
bool named_by(const std::string& name, const std::string& module, bool embedding) {
  return name.empty() ? embedding : names_module(name, module);
}

void add_tokens_of(VocabularySite site, const std::string& name, const std::vector<int64_t>& tokens, bool tied, const AdapterConfig& adapter,
                   std::vector<VocabularySite>& sites, std::vector<KeyFault>& faults) {
  constexpr const char* kKey = "adapter.trainable_token_indices";
  site.tokens = tokens;
  if (std::set<int64_t>(tokens.begin(), tokens.end()).size() < tokens.size())
    faults.push_back({kKey, "a token appears twice in the list of " + site.module});
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](int64_t token) { return token < 0 || token >= site.vocabulary; });
  if (outside != tokens.end())
    faults.push_back({kKey, "token " + std::to_string(*outside) + " does not exist, the model has 0 to " + std::to_string(site.vocabulary - 1)});
  if (kept_whole(adapter, site.module))
    faults.push_back({kKey, site.module + " is trained whole (adapter.modules_to_save)"});
  for (const VocabularySite& other : sites)
    if (site.embedding && tied && !other.embedding)
      faults.push_back({kKey, "the rows are those of " + other.module + " too, which has a low-rank adapter of its own"});
    else if (other.module == site.module)
      faults.push_back({kKey, site.module + (other.rank > 0 ? " has a low-rank adapter, too (adapter.target_modules)" : " is named twice, as " + name)});
  sites.push_back(std::move(site));
}

// Adds the places whose tokens are trained as rows to `sites`, which have factors.
void add_token_sites(const ModelSpec& spec, const AdapterConfig& adapter, std::vector<VocabularySite>& sites) {
  if (adapter.type == AdapterType::none) return;
  std::vector<KeyFault> faults;
  for (const auto& [name, tokens] : adapter.trainable_token_indices) {
    bool found = false;
    for (const ModuleUse& module : modules_of(spec, Experts::in_rows)) {
      const bool embedding = module.path + ".weight" == embedding_name(spec), head = module.kind == ModuleKind::head;
      if ((!embedding && !head) || module.path == kScoreModule || !named_by(name, module.path, embedding)) continue;
      found = true;
      // The rows of a head that shares the embedding's weights are the embedding's.
      const bool shared = head && spec.tie_word_embeddings;
      const auto same = [&](const auto& other) { return named_by(other.first, embedding_name(spec).substr(0, embedding_name(spec).rfind('.')), true) && other.second == tokens; };
      if (shared && std::any_of(adapter.trainable_token_indices.begin(), adapter.trainable_token_indices.end(), same)) continue;
      if (shared) {
        faults.push_back({"adapter.trainable_token_indices", module.path + " shares the embedding's weights: name only the embedding"});
        continue;
      }
      add_tokens_of({module.path, embedding, spec.vocab_size, spec.hidden_size, 0, 0, 0, {}}, name, tokens, spec.tie_word_embeddings, adapter, sites, faults);
      const std::string tied_head = spec.tie_word_embeddings ? outer_modules(spec).head : std::string();
      if (!tied_head.empty() && kept_whole(adapter, tied_head))
        faults.push_back({"adapter.trainable_token_indices", "the rows are those of " + tied_head + " too, which is trained whole (adapter.modules_to_save)"});
    }
    if (!found) faults.push_back({"adapter.trainable_token_indices", "\"" + name + "\" is neither the embedding nor the head"});
  }
  if (!faults.empty()) throw KeyError(ErrorKind::job, std::move(faults));
}

// Leaves out what PEFT's all-linear does not find under transformers 5.
void count_as_peft(const ModelSpec& spec, const AdapterConfig& adapter, const std::vector<AdapterSite>& sites, TargetMatch& match) {
  std::set<std::string> routers;
  for (const ModuleUse& module : modules_of(spec, Experts::in_rows))
    if (module.use == LinearUse::router) routers.insert(module.path);
  for (const AdapterSite& site : sites) {
    if (site.experts > 0) continue;  // named in target_parameters
    if (site.module.find(".experts.") == std::string::npos && routers.count(site.module) == 0) continue;
    match.peft_modules -= site.copies;
    match.peft_parameters -= parameters_of(site, adapter);
  }
}

}  // namespace

std::vector<AdapterSite> adapter_sites(const ModelSpec& spec, const AdapterConfig& adapter,
                                       Experts experts) {
  return select(spec, adapter, experts).sites;
}

AdapterPlaces adapter_places(const ModelSpec& spec, const AdapterConfig& adapter, Experts experts) {
  Selection selection = select(spec, adapter, experts);
  add_token_sites(spec, adapter, selection.vocabulary);
  return {std::move(selection.sites), std::move(selection.vocabulary)};
}

std::vector<VocabularySite> vocabulary_sites(const ModelSpec& spec, const AdapterConfig& adapter) {
  return adapter_places(spec, adapter, Experts::in_rows).vocabulary;
}

void refuse_joined_experts(const std::vector<AdapterSite>& sites, const std::string& folder) {
  for (const AdapterSite& site : sites)
    if (site.experts > 0)
      throw Error(ErrorKind::job, folder + ": adapts all experts of " + site.module + " in one tensor (target_parameters), which forge neither merges nor writes as GGUF")
          .hint("load base and adapter with PEFT, and write what merge_and_unload() gives");
}

std::vector<TargetMatch> target_matches(const ModelSpec& spec, const AdapterConfig& adapter) {
  if (adapter.type == AdapterType::none) return {};
  Selection selection = select(spec, adapter, Experts::in_rows);
  for (TargetMatch& match : selection.targets)
    match.peft_modules = match.modules, match.peft_parameters = match.parameters;
  if (all_linear(adapter)) count_as_peft(spec, adapter, selection.sites, selection.targets.front());
  return std::move(selection.targets);
}

}  // namespace forge
