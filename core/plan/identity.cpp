#include "core/plan/identity.h"

#include <algorithm>

#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/lib/base/text.h"
#include "core/plan/plan.h"

namespace forge {

// Replaces paths: files are known by their content (start_files.h), not by their paths.
static Json without_paths(Json rewards) {
  for (Json& reward : rewards)
    for (const char* key : {"path", "schema"})
      if (reward.contains(key) && !reward[key].is_null()) reward[key] = "a file";
  return rewards;
}

Identity identity_of(const Job& asked, const Setup& plan) {
  Identity made;
  for (KeyRole role : {KeyRole::identity, KeyRole::limit})
    for (const std::string& key : keys_of_role(role)) made.identity[key] = dump_json(value_of(asked, key));
  if (!asked.rewards.empty()) made.identity["rewards"] = dump_json(without_paths(value_of(asked, "rewards")));
  for (const std::string& key : keys_of_role(KeyRole::execution))
    made.execution[key] = dump_json(value_of(asked, key));
  // Everything read from files counts by its content.
  made.identity["model"] = plan.model_hash + " (" + format_count(plan.model_bytes) + " B)";
  made.identity["data.train"] = plan.train.content_hash;
  return made;
}

using Stated = std::map<std::string, std::string>;

// Returns keys and values without those at their defaults, so that a plan of an older forge, which
// lacks newer keys, compares equal.
static Stated beside_defaults(const Stated& all) {
  Stated said;
  for (const auto& [key, text] : all) {
    const Json value = Json::parse(text, nullptr, false);  // a hash is no JSON
    const Json rest = value.is_discarded() ? Json(text) : beside_default(key, value);
    if (!rest.is_null()) said[key] = dump_json(rest);
  }
  return said;
}

std::vector<std::string> differing_keys(const Stated& before, const Stated& after) {
  const Stated there = beside_defaults(before), here = beside_defaults(after);
  Stated all = there;
  all.insert(here.begin(), here.end());
  std::vector<std::string> keys;
  for (const auto& [key, unused] : all)
    if (!there.contains(key) || !here.contains(key) || there.at(key) != here.at(key)) keys.push_back(key);
  return keys;
}

static bool decides(const Plan& plan, const std::string& name) {
  return std::any_of(plan.start_files.begin(), plan.start_files.end(),
                     [&](const StartFile& file) { return file.name == name && file.decides; });
}

std::vector<std::string> identity_differences(const Plan& old_plan, const Plan& new_plan) {
  // For plans that do not list the files, the hash of the header, under "model", stands in for
  // them.
  const bool files_known = !old_plan.start_files.empty() && !new_plan.start_files.empty();
  std::vector<std::string> keys = differing_keys(old_plan.identity, new_plan.identity);
  if (!files_known) return keys;
  std::erase(keys, "model");
  for (const std::string& name : changed_files(old_plan.start_files, new_plan.start_files))
    if (decides(old_plan, name) || decides(new_plan, name)) keys.push_back(name);
  return keys;
}

}  // namespace forge
