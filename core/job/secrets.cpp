#include "core/job/secrets.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/job/environment.h"
#include "core/job/job.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr const char* kList = "secrets";

using Replacements = std::vector<std::pair<std::string, std::string>>;  // from, to

// Replaces texts in one pass. Replaced text is not scanned again.
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

// Returns `value` with `change` applied to every text in it, names of members included.
template <class Change>
Json with_texts(const Json& value, const Change& change) {
  if (value.is_string()) return change(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(with_texts(item, change));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [key, item] : value.items()) object[change(key)] = with_texts(item, change);
  return object;
}

Json replaced(const Json& value, const Replacements& replacements) {
  return with_texts(value, [&](const std::string& text) { return replaced(text, replacements); });
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

// Returns the bytes of the token that begins at `text`, or 0. Names such as hf_transformers have no
// long run of mixed letters and digits.
size_t token_length(std::string_view text) {
  constexpr size_t kRun = 16;
  if (!begins_token(text)) return 0;
  size_t end = 0, run = 0, digits = 0;
  bool mixed = false;
  for (; end < text.size() && is_word(text[end]); ++end) {
    const bool alphanumeric = text[end] != '_' && text[end] != '-';
    const bool digit = text[end] >= '0' && text[end] <= '9';
    run = alphanumeric ? run + 1 : 0;
    digits = alphanumeric ? digits + digit : 0;
    mixed = mixed || (run >= kRun && digits > 0 && digits < run);
  }
  return mixed ? end : 0;
}

// Returns the bytes of "user:password" if `text` continues after a "://" with it, or 0.
size_t user_length(std::string_view text) {
  const size_t end = text.find_first_of("@/?# \t\n\"'<>");
  return end != text.npos && text[end] == '@' ? end : 0;
}

std::string without_shapes(std::string_view text) {
  constexpr std::string_view kScheme = "://";
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const bool begins_word = at == 0 || !is_word(text[at - 1]);
    const bool in_url = at >= kScheme.size() && text.substr(at - kScheme.size(), kScheme.size()) == kScheme;
    size_t hidden = in_url ? user_length(text.substr(at)) : 0;
    if (hidden == 0 && begins_word) hidden = token_length(text.substr(at));
    result += hidden > 0 ? "***" : std::string(1, text[at]);
    at += std::max<size_t>(hidden, 1);
  }
  return result;
}

// Returns the replacements of the secrets, longest first: one secret may be a prefix of another.
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

// Returns the variables that a sealed object names; none if it is no sealed object.
std::vector<std::string> variables_of(const Json& sealed) {
  std::vector<std::string> variables;
  if (!sealed.is_object() || !sealed.contains(kList) || !sealed[kList].is_array()) return variables;
  for (const Json& variable : sealed[kList])
    if (variable.is_string()) variables.push_back(variable);
  return variables;
}

std::string reference(const std::string& variable) { return "${env:" + variable + "}"; }

// Returns a header's value without the scheme before it: "abc" of "Bearer abc".
std::string credential_of(const std::string& value) {
  const size_t space = value.find(' ');
  const bool scheme = space != value.npos && std::all_of(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(space), is_word);
  return scheme ? std::string(trim(std::string_view(value).substr(space))) : value;
}

// True if a header may hold a credential. Headers that describe a request do not, and a short value
// under a name that says nothing ("true") stands in too many texts to be hidden.
bool holds_credential(std::string name, const std::string& value) {
  constexpr size_t kShortest = 8;
  std::replace(name.begin(), name.end(), '-', '_');
  name = lower(name);
  if (looks_secret(name, value)) return true;
  return value.size() >= kShortest && !name.starts_with("accept") && !name.starts_with("content_") && name != "user_agent";
}

}  // namespace

void add_header_secrets(const Job& job, std::vector<Secret>& secrets) {
  const auto add = [&](const std::map<std::string, std::string>& headers) {
    for (const auto& [name, value] : headers) {
      const std::string credential = credential_of(value);
      const bool known = std::any_of(secrets.begin(), secrets.end(), [&](const Secret& secret) { return secret.value == credential; });
      if (!known && holds_credential(name, credential)) secrets.push_back({"", credential});
    }
  };
  for (const RewardConfig& reward : job.rewards) add(reward.as<HttpReward>().headers);
  add(job.rollout.server.headers);
}

std::string hide_secrets(std::string text, const std::vector<Secret>& secrets) {
  return secrets.empty() ? text : replaced(text, stars(secrets));
}

Json hide_secrets(const Json& value, const std::vector<Secret>& secrets) {
  return secrets.empty() ? value : replaced(value, stars(secrets));
}

std::string redacted(std::string text, const std::vector<Secret>& secrets) {
  return without_shapes(hide_secrets(std::move(text), secrets));
}

Json redacted(const Json& value, const std::vector<Secret>& secrets) {
  return with_texts(value, [&](const std::string& text) { return redacted(text, secrets); });
}

Json seal_secrets(const Json& value, const std::vector<Secret>& all) {
  std::vector<Secret> secrets = all;
  std::erase_if(secrets, [](const Secret& secret) { return secret.variable.empty(); });
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
  for (const std::string& variable : variables_of(sealed)) {
    const std::optional<std::string> value = environment(variable);
    if (value)
      replacements.emplace_back(reference(variable), *value);
    else
      missing.push_back(variable);
  }
  if (!missing.empty())
    throw Error(ErrorKind::environment, name + ": needs environment " +
                                            (missing.size() == 1 ? "variable that is not set: " : "variables that are not set: ") +
                                            join(missing, ", "))
        .hint("set them as they were when the run was started");
  Json plain = sealed;
  plain.erase(kList);
  return replaced(plain, replacements);
}

std::vector<Secret> sealed_secrets(const Json& sealed, const Environment& environment) {
  std::vector<Secret> secrets;
  for (const std::string& variable : variables_of(sealed))
    if (const std::optional<std::string> value = environment(variable)) secrets.push_back({variable, *value});
  return secrets;
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
