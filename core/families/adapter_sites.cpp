// The rules are PEFT's (tuners_utils.check_target_module_exists and get_pattern_key), so that a saved
// adapter_config.json selects the same modules there.
#include "core/families/adapter_sites.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/key_error.h"
#include "core/base/text.h"
#include "core/families/family.h"
#include "core/families/modules.h"
#include "core/families/pattern.h"

namespace forge {
namespace {

bool names(const std::string& target, const std::string& path) {
  return path == target || ends_with(path, "." + target);
}

bool all_linear(const AdapterConfig& adapter) {
  return adapter.target_modules.size() == 1 && lower(adapter.target_modules[0]) == "all-linear";
}

bool excluded(const AdapterConfig& adapter, const std::string& path) {
  for (const std::string& name : adapter.exclude_modules)
    if (names(name, path)) return true;
  return false;
}

// An adapter never sits on a module that is kept whole: the path has the name as whole components.
bool kept_whole(const AdapterConfig& adapter, const std::string& path) {
  for (const std::string& name : adapter.modules_to_save)
    if (("." + path + ".").find("." + name + ".") != std::string::npos) return true;
  return false;
}

bool layer_wanted(const AdapterConfig& adapter, int64_t layer) {
  if (adapter.layers_to_transform.empty()) return true;
  for (int64_t wanted : adapter.layers_to_transform)
    if (wanted == layer) return true;
  return false;
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

  int64_t match(const Module& module) const {
    if (all_linear(adapter_))
      return adaptable(module) && layer_wanted(adapter_, module.layer) ? 0 : -1;
    for (size_t i = 0; i < patterns_.size(); ++i)
      if (patterns_[i].matches(module.path)) return static_cast<int64_t>(i);
    for (size_t i = 0; i < adapter_.target_modules.size() && patterns_.empty(); ++i) {
      const std::string& target = adapter_.target_modules[i];
      // PEFT applies layers_to_transform to suffixes, never to a path written out.
      if (module.path == target || (names(target, module.path) && layer_wanted(adapter_, module.layer)))
        return static_cast<int64_t>(i);
    }
    return -1;
  }

 private:
  const AdapterConfig& adapter_;
  std::vector<Pattern> patterns_;
};

// Values of rank_pattern or alpha_pattern: the first key that matches at the end of the path on a dot
// boundary.
template <class Value>
class Overrides {
 public:
  Overrides(const std::map<std::string, Value>& table, const std::string& key) : key_(key) {
    for (const auto& [name, value] : table)
      rows_.push_back({name, Pattern("(.*\\.)?(" + name + ")", key), value, false});
  }
  Value find(const std::string& path, Value otherwise) {
    for (Row& row : rows_) {
      if (!row.pattern.matches(path)) continue;
      row.used = true;
      return row.value;
    }
    return otherwise;
  }
  void collect_unused(std::vector<KeyFault>& faults) const {
    for (const Row& row : rows_)
      if (!row.used) faults.push_back({key_, "\"" + row.key + "\" matches no adapted module"});
  }

 private:
  struct Row {
    std::string key;
    Pattern pattern;
    Value value;
    bool used;
  };
  std::string key_;
  std::vector<Row> rows_;
};

std::string known_modules(const ModelSpec& spec) {
  const size_t prefix = std::string(family_of(spec).modules.layers).size() + 2;  // and "0."
  std::vector<std::string> known;
  for (const Module& module : modules_of(spec))
    if (adaptable(module) && module.layer == 0) known.push_back(module.path.substr(prefix));
  return join(known, ", ");
}

void require_layers(const ModelSpec& spec, const AdapterConfig& adapter, std::vector<KeyFault>& faults) {
  for (int64_t layer : adapter.layers_to_transform)
    if (layer < 0 || layer >= spec.num_layers)
      faults.push_back({"adapter.layers_to_transform", "layer " + std::to_string(layer) +
                                                           " does not exist, the model has 0 to " +
                                                           std::to_string(spec.num_layers - 1)});
}

// PEFT wraps the module that holds a targeted parameter, and the wrapper once more for its next one: of "mlp.experts" with gate_up_proj
// and down_proj, in that order, the outer adapter is down_proj's and gate_up_proj's is that of "mlp.experts.base_layer".
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
    if (names(adapter.target_parameters[i], path)) wanted = used[i] = true;
  return wanted;
}

void refuse_unused_parameters(const AdapterConfig& adapter, const std::vector<bool>& used, std::vector<KeyFault>& faults) {
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      faults.push_back({"adapter.target_parameters", '"' + adapter.target_parameters[i] +
                                                         "\" names no tensor that holds all experts of a layer (as gpt-oss's mlp.experts.down_proj)"});
  // As PEFT: A's input cannot be masked where A and B are added to the weight.
  if (adapter.target_parameters.empty()) return;
  if (adapter.dropout > 0) faults.push_back({"adapter.dropout", "cannot be combined with target_parameters"});
  if (adapter.use_dora) faults.push_back({"adapter.use_dora", "cannot be combined with target_parameters"});
  if (adapter.init == LoraInit::pissa) faults.push_back({"adapter.init", "pissa cannot be combined with target_parameters"});
}

struct Selection {
  std::vector<AdapterSite> sites;
  std::vector<int64_t> matches;  // sites of each target
  std::vector<bool> used;        // targets that match a module, also an excluded one (PEFT writes both lists)
};

void refuse_unused_targets(const ModelSpec& spec, const AdapterConfig& adapter, const Selection& selection,
                           std::vector<KeyFault>& faults) {
  std::vector<std::string> leaves;
  for (size_t i = 0; i < adapter.target_modules.size(); ++i) {
    if (selection.matches[i] > 0 || (selection.used[i] && !selection.sites.empty())) continue;
    const std::string& target = adapter.target_modules[i];
    if (leaves.empty())
      for (const Module& module : modules_of(spec)) leaves.push_back(module.path.substr(module.path.rfind('.') + 1));
    faults.push_back(
        {"adapter.target_modules",
         "\"" + target + "\" matches no linear layer" +
             (adapter.target_is_regex ? " (it must match the whole path)" : did_you_mean(target, leaves))});
  }
}

// PiSSA starts from the largest singular vectors: there must be as many as ranks. One layer stands for all.
void require_singular_vectors(const std::vector<AdapterSite>& sites, std::vector<KeyFault>& faults) {
  for (const AdapterSite& site : sites) {
    const int64_t found = std::min(site.in_features, site.out_features);
    if (site.rank <= found) continue;
    faults.push_back({"adapter.init", "pissa finds " + std::to_string(found) + " singular vectors in " +
                                          site.module + ", fewer than rank " + std::to_string(site.rank)});
    return;
  }
}

Selection select(const ModelSpec& spec, const AdapterConfig& adapter) {
  Selection selection;
  selection.matches.assign(adapter.target_modules.size(), 0);
  selection.used.assign(adapter.target_modules.size(), false);
  if (adapter.type == AdapterType::none) return selection;
  const Targets targets(adapter);
  Overrides<int64_t> ranks(adapter.rank_pattern, "adapter.rank_pattern");
  Overrides<double> alphas(adapter.alpha_pattern, "adapter.alpha_pattern");
  std::vector<KeyFault> faults;
  require_layers(spec, adapter, faults);
  std::vector<bool> used_parameters(adapter.target_parameters.size(), false);
  for (const Module& module : modules_of(spec)) {
    if (kept_whole(adapter, module.path)) continue;
    const bool joined = module.role == Role::experts && targets_parameter(adapter, module.path, used_parameters);
    const int64_t target = joined ? -1 : targets.match(module);
    if (!joined && target < 0) continue;
    if (!joined) selection.used[target] = true;
    if (!joined && excluded(adapter, module.path)) continue;
    if (!joined && !adaptable(module)) {
      faults.push_back(
          {"adapter.target_modules",
           "" + module.path +
               (module.role == Role::head ? " cannot have a low-rank adapter" : " is not a linear layer") +
               " (modules_to_save trains it whole)"});
      selection.matches[target] += 1;
      continue;
    }
    AdapterSite site{module.path, module.path, module.layer, module.in_features, module.out_features};
    site.experts = module.experts;
    site.rank = ranks.find(module.path, adapter.rank);
    site.alpha = alphas.find(module.path, adapter.alpha);
    const double rank = static_cast<double>(site.rank);
    site.scale = site.alpha / (adapter.use_rslora ? std::sqrt(rank) : rank);
    if (site.rank < 1)
      faults.push_back({"adapter.rank_pattern", "rank " + std::to_string(site.rank) + " of " + module.path});
    if (!joined) selection.matches[target] += 1;
    selection.sites.push_back(std::move(site));
  }
  name_joined_adapters(selection.sites);
  refuse_unused_parameters(adapter, used_parameters, faults);
  if (adapter.init == LoraInit::pissa && !adapter.init_from)
    require_singular_vectors(selection.sites, faults);
  refuse_unused_targets(spec, adapter, selection, faults);
  if (!selection.sites.empty()) ranks.collect_unused(faults);
  if (!selection.sites.empty()) alphas.collect_unused(faults);
  if (faults.empty()) return selection;
  throw KeyError(ErrorKind::job, std::move(faults),
                 "the linear layers are " + known_modules(spec) + "; or write all-linear");
}

}  // namespace

std::vector<AdapterSite> adapter_sites(const ModelSpec& spec, const AdapterConfig& adapter) {
  return select(spec, adapter).sites;
}

void refuse_joined_experts(const std::vector<AdapterSite>& sites, const std::string& folder) {
  for (const AdapterSite& site : sites)
    if (site.experts > 0)
      throw Error(ErrorKind::job, folder + ": adapts all experts of " + site.module + " in one tensor (target_parameters), which forge neither merges nor writes as GGUF")
          .hint("load base and adapter with PEFT, and write what merge_and_unload() gives");
}

std::vector<TargetMatch> target_matches(const ModelSpec& spec, const AdapterConfig& adapter) {
  const Selection selection = select(spec, adapter);
  std::vector<TargetMatch> table;
  if (adapter.type == AdapterType::none) return table;
  for (size_t i = 0; i < selection.matches.size(); ++i)
    table.push_back({adapter.target_modules[i], selection.matches[i]});
  return table;
}

}  // namespace forge
