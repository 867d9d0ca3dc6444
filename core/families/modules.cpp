#include "core/families/modules.h"

#include <algorithm>

#include "core/base/key_error.h"
#include "core/base/text.h"
#include "core/families/step.h"

namespace forge {
namespace {

Role role_of(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::embedding:
      return Role::embedding;
    case ModuleKind::norm:
      return Role::norm;
    case ModuleKind::linear:
      return Role::linear;
    case ModuleKind::head:
      return Role::head;
  }
  return Role::linear;
}

}  // namespace

std::vector<Module> modules_of(const ModelSpec& spec) {
  std::vector<Module> modules;
  for (const ModuleUse& use : forward_list({spec}).modules)
    modules.push_back({use.path, role_of(use.kind), use.layer, use.in, use.out, use.bias});
  // A state_dict names a layer's linear layers before its norms.
  std::stable_sort(modules.begin(), modules.end(), [](const Module& a, const Module& b) {
    return a.layer >= 0 && a.layer == b.layer && a.role == Role::linear && b.role == Role::norm;
  });
  return modules;
}

std::vector<Module> saved_modules(const ModelSpec& spec, const AdapterConfig& adapter) {
  std::vector<Module> saved;
  std::vector<bool> used(adapter.modules_to_save.size(), false);
  for (const Module& module : modules_of(spec)) {
    bool wanted = false;
    for (size_t i = 0; i < adapter.modules_to_save.size(); ++i) {
      if (!ends_with(module.path, adapter.modules_to_save[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted) saved.push_back(module);
  }
  std::vector<std::string> unknown;
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) unknown.push_back('"' + adapter.modules_to_save[i] + '"');
  if (unknown.empty()) return saved;
  throw KeyError(
      ErrorKind::job, "adapter.modules_to_save", join(unknown, ", ") + " names no module of this model",
      "modules with weights are embed_tokens, lm_head, norm, and those of a layer such as q_proj or "
      "input_layernorm");
}

}  // namespace forge
