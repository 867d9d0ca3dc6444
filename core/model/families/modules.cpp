#include "core/model/families/modules.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/expert_rows.h"
#include "core/model/families/family.h"
#include "core/model/families/step.h"

namespace forge {
namespace {

std::vector<ModuleUse> recorded_modules(const ModelSpec& spec, Experts experts) {
  std::vector<ModuleUse> modules = forward_list({spec, {.experts = experts}}).modules;
  // A state_dict names a layer's linear layers before its norms.
  std::stable_sort(modules.begin(), modules.end(), [](const ModuleUse& a, const ModuleUse& b) {
    return a.layer >= 0 && a.layer == b.layer && a.kind == ModuleKind::linear && b.kind == ModuleKind::norm;
  });
  return modules;
}

}  // namespace

std::vector<ModuleUse> modules_of(const ModelSpec& spec, Experts experts) {
  // A plan asks some twenty times, and recording a large model's list takes a millisecond.
  struct Recorded {
    ModelSpec spec;
    std::vector<ModuleUse> modules;
  };
  static std::mutex guard;
  static std::array<Recorded, 2> last;
  const std::lock_guard lock(guard);
  Recorded& known = last[static_cast<size_t>(experts)];
  if (known.modules.empty() || !(spec == known.spec))
    known = {spec, recorded_modules(spec, experts)};
  return known.modules;
}

std::vector<ModuleUse> modules_for(const ModelSpec& spec, const AdapterConfig& adapter,
                                   Experts experts) {
  std::vector<ModuleUse> modules = modules_of(spec, experts);
  const std::set<std::string> apart =
      experts == Experts::in_rows ? rows_apart(spec, adapter) : std::set<std::string>();
  if (apart.empty()) return modules;
  std::vector<ModuleUse> divided;
  for (ModuleUse& module : modules) {
    if (apart.count(module.path) == 0) {
      divided.push_back(std::move(module));
      continue;
    }
    for (int64_t copy = 0; copy < module.copies; ++copy) {
      divided.push_back(module);
      divided.back().path = module.path_of(copy), divided.back().copies = 1;
    }
  }
  return divided;
}

std::string weight_name(const ModuleUse& module) {
  return module.kind == ModuleKind::vector || module.kind == ModuleKind::experts ? module.path : module.path + ".weight";
}
std::string bias_name(const ModuleUse& module) {
  return module.path + (module.kind == ModuleKind::experts ? "_bias" : ".bias");
}
bool adaptable(const ModuleUse& module) { return module.kind == ModuleKind::linear && module.use != LinearUse::bare_router; }

std::string embedding_name(const ModelSpec& spec) {
  return std::string(outer_modules(spec).embedding) + ".weight";
}
std::string logits_head_name(const ModelSpec& spec) { return std::string(outer_modules(spec).head) + ".weight"; }
std::string head_bias_name(const ModelSpec& spec) { return std::string(outer_modules(spec).head) + ".bias"; }
std::string head_name(const ModelSpec& spec) {
  return spec.score_head ? std::string(kScoreModule) + ".weight" : logits_head_name(spec);
}

std::vector<ModuleUse> saved_modules(const ModelSpec& spec, const AdapterConfig& adapter,
                                     Experts experts) {
  std::vector<ModuleUse> saved;
  if (adapter.modules_to_save.empty()) return saved;
  std::vector<bool> used(adapter.modules_to_save.size(), false);
  for (const ModuleUse& module : modules_for(spec, adapter, experts)) {
    bool wanted = false;
    for (size_t i = 0; i < adapter.modules_to_save.size(); ++i) {
      if (!ends_with(module.path, adapter.modules_to_save[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted && module.kind == ModuleKind::linear && family_of(spec).transposed_linears)
      throw KeyError(ErrorKind::job, "adapter.modules_to_save", module.path + " is a Conv1D, which forge does not keep whole",
                     "adapt it (adapter.target_modules), or train everything (adapter: none)");
    if (wanted) saved.push_back(module);
  }
  std::vector<std::string> unknown;
  const OuterModules& outer = outer_modules(spec);
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) unknown.push_back('"' + adapter.modules_to_save[i] + '"');
  if (unknown.empty() || adapter.init_from) return saved;  // PEFT wrote these names, and passes over those of no module
  throw KeyError(
      ErrorKind::job, "adapter.modules_to_save", join(unknown, ", ") + " names no module of this model",
      std::string("modules with weights are ") + last_part(outer.embedding) + ", " + last_part(outer.head) + ", " +
          last_part(outer.final_norm) + ", and those of a layer");
}

}  // namespace forge
