#include "core/config/secrets.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "core/base/error.h"
#include "core/base/text.h"

namespace forge {
namespace {

constexpr const char* kList = "secrets";

using Replacements = std::vector<std::pair<std::string, std::string>>;  // from, to

// Replaced text is not scanned again.
std::string replaced(const std::string& text, const Replacements& replacements) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto found = std::find_if(replacements.begin(), replacements.end(), [&](const auto& pair) {
      return !pair.first.empty() && text.compare(at, pair.first.size(), pair.first) == 0;
    });
    if (found == replacements.end()) {
      result += text[at++];
      continue;
    }
    result += found->second;
    at += found->first.size();
  }
  return result;
}

Json replaced(const Json& value, const Replacements& replacements) {
  if (value.is_string()) return replaced(value.get_ref<const std::string&>(), replacements);
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(replaced(item, replacements));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [key, item] : value.items()) object[replaced(key, replacements)] = replaced(item, replacements);
  return object;
}

// Longest first: one secret may be a prefix of another.
template <class Text>
Replacements of(const std::vector<Secret>& secrets, Text text) {
  Replacements replacements;
  for (const Secret& secret : secrets) replacements.emplace_back(secret.value, text(secret));
  std::stable_sort(replacements.begin(), replacements.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return replacements;
}

Replacements stars(const std::vector<Secret>& secrets) {
  return of(secrets, [](const Secret&) { return std::string("***"); });
}

std::string reference(const std::string& variable) { return "${env:" + variable + "}"; }

}  // namespace

std::string hide_secrets(std::string text, const std::vector<Secret>& secrets) {
  return secrets.empty() ? text : replaced(text, stars(secrets));
}

Json hide_secrets(const Json& value, const std::vector<Secret>& secrets) {
  return secrets.empty() ? value : replaced(value, stars(secrets));
}

Json seal_secrets(const Json& value, const std::vector<Secret>& secrets) {
  if (secrets.empty()) return value;
  Json sealed = replaced(value, of(secrets, [](const Secret& secret) { return reference(secret.variable); }));
  if (!sealed.is_object()) return sealed;
  sealed[kList] = Json::array();
  for (const Secret& secret : secrets)
    if (std::find(sealed[kList].begin(), sealed[kList].end(), secret.variable) == sealed[kList].end())
      sealed[kList].push_back(secret.variable);
  return sealed;
}

Json unseal_secrets(const Json& sealed, const Environment& environment, const std::string& name) {
  if (!sealed.is_object() || !sealed.contains(kList) || !sealed[kList].is_array()) return sealed;
  Replacements replacements;
  std::vector<std::string> missing;
  for (const Json& variable : sealed[kList]) {
    if (!variable.is_string()) continue;
    const std::optional<std::string> value = environment(variable);
    if (value)
      replacements.emplace_back(reference(variable), *value);
    else
      missing.push_back(variable);
  }
  if (!missing.empty())
    throw Error(ErrorKind::environment, name + ": names variables of the environment that " +
                                            (missing.size() == 1 ? "is not set: " : "are not set: ") +
                                            join(missing, ", "))
        .hint("set them as they were when the run was started");
  Json plain = sealed;
  plain.erase(kList);
  return replaced(plain, replacements);
}

Json to_json(const std::vector<Secret>& secrets) {
  Json list = Json::array();
  for (const Secret& secret : secrets) list.push_back({{"variable", secret.variable}, {"value", secret.value}});
  return list;
}

std::vector<Secret> secrets_from_json(const Json& list) {
  std::vector<Secret> secrets;
  for (const Json& secret : list) secrets.push_back({secret.at("variable"), secret.at("value")});
  return secrets;
}

Environment process_environment() {
  return [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace forge
