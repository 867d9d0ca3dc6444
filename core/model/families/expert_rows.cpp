#include "core/model/families/expert_rows.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/module_names.h"
#include "core/model/families/modules.h"
#include "core/model/families/pattern.h"
#include "core/model/families/stored_config.h"

namespace forge {
namespace {

// A condition on a module's path in an adapter's settings.
using Condition = std::function<bool(const std::string& path)>;

// Returns the conditions that may hold for some experts of a layer and not for others. Names match
// whole parts of a path, or its end: one without a digit holds for no number of an expert.
std::vector<Condition> conditions_on_numbers(const AdapterConfig& adapter) {
  std::vector<Condition> conditions;
  const auto add_names = [&](const std::vector<std::string>& all,
                             bool (*holds)(const std::string& name, const std::string& path)) {
    for (const std::string& name : all)
      if (name.find_first_of("0123456789") != std::string::npos)
        conditions.push_back([&name, holds](const std::string& path) { return holds(name, path); });
  };
  const auto add_pattern = [&](const std::string& expression) {
    try {
      conditions.push_back([pattern = std::make_shared<Pattern>(expression, "adapter")](
                               const std::string& path) { return pattern->matches(path); });
    } catch (const KeyError&) {  // it is refused where it is used
    }
  };
  const auto add_patterns = [&](const auto& table) {
    for (const auto& [name, value] : table) add_pattern(pattern_of_key(name));
  };
  if (!adapter.target_is_regex)
    add_names(adapter.target_modules, names_module);
  else
    for (const std::string& expression : adapter.target_modules) add_pattern(expression);
  if (!adapter.exclude_is_regex)
    add_names(adapter.exclude_modules, names_module);
  else
    add_pattern(adapter.exclude_modules.at(0));
  add_names(adapter.modules_to_save, has_part);
  add_names(adapter.modules_to_save,
            [](const std::string& name, const std::string& path) { return ends_with(path, name); });
  add_patterns(adapter.rank_pattern), add_patterns(adapter.alpha_pattern);
  return conditions;
}

bool tells_apart(const Condition& condition, const ModuleUse& row) {
  try {
    const bool first = condition(row.path);
    for (int64_t copy = 1; copy < row.copies; ++copy)
      if (condition(row.path_of(copy)) != first) return true;
    return false;
  } catch (const KeyError&) {  // it takes too many steps with one of the paths, which is then named
    return true;
  }
}

}  // namespace

std::set<std::string> rows_apart(const ModelSpec& spec, const AdapterConfig& adapter) {
  if (spec.num_experts == 0) return {};
  std::vector<Condition> conditions;
  if (adapter.type != AdapterType::none) conditions = conditions_on_numbers(adapter);
  if (!spec.kept_modules.empty())
    conditions.push_back([kept = std::make_shared<KeptModules>(spec.kept_modules)](const std::string& path) { return kept->has(path); });
  std::set<std::string> apart;
  for (const ModuleUse& row : modules_of(spec, Experts::in_rows))
    if (row.copies > 1 && std::ranges::any_of(conditions, [&](const Condition& condition) {
          return tells_apart(condition, row);
        }))
      apart.insert(row.path);
  return apart;
}

}  // namespace forge
