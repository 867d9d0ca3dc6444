#include "core/job/environment.h"

#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kShortestSecret = 4;  // hiding a shorter one would hide half of every text

bool is_variable_name(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name)
    if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
      return false;
  return true;
}

bool is_capital(const std::string& name) { return name.find_first_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos; }

class Substitution {
 public:
  // `sealed`: every variable counts as a secret here, whatever its name.
  Substitution(Node& node, bool sealed, const Environment& environment, std::vector<Secret>& secrets, Diagnostics& faults)
      : node_(node), sealed_(sealed), environment_(environment), secrets_(secrets), faults_(faults) {}

  void run() {
    const std::string text = node_.scalar;
    std::string result;
    size_t at = 0;
    for (size_t open = text.find("${"); open != std::string::npos; open = text.find("${", at)) {
      if (open > at && text[open - 1] == '$') {  // $${ is ${
        result += text.substr(at, open - 1 - at) + "${";
        at = open + 2;
        continue;
      }
      size_t close = text.find('}', open);
      if (close == std::string::npos) {
        refuse("${ is not closed", "write ${env:NAME} or ${env:NAME:-default}, or $${ for the text ${");
        return;
      }
      result += text.substr(at, open - at) + value_of(text.substr(open + 2, close - open - 2));
      at = close + 1;
    }
    if (node_.faulty) return;  // stays as written: not an empty value
    node_.scalar = result + text.substr(at);
    node_.quoting = Quoting::either;
    if (node_.scalar.empty()) node_.kind = NodeKind::null;
  }

 private:
  std::string refuse(std::string message, std::string hint = "") {
    node_.faulty = true;
    faults_.add(node_.at, "", std::move(message), std::move(hint));
    return "";
  }
  // ${NAME} in capitals is a shell's spelling of ${env:NAME}. ${name} is another tool's reference
  // to a key.
  std::string value_of(const std::string& written) {
    const bool stated = written.starts_with("env:");
    const std::string reference = stated ? written.substr(4) : written;
    const size_t fallback = reference.find(":-");
    const bool has_fallback = fallback != std::string::npos;
    const std::string name = reference.substr(0, fallback);
    if (!is_variable_name(name) || (!stated && !is_capital(name))) {
      return refuse("${" + written + "} does not name an environment variable",
                    "write the value itself, or ${env:NAME} or ${env:NAME:-default}; $${ is the text ${");
    }
    std::optional<std::string> value = environment_(name);
    // The default also replaces an empty variable, as in a shell.
    if (has_fallback && (!value || value->empty())) return reference.substr(fallback + 2);
    if (!value)
      return refuse("the environment variable " + name + " is not set",
                    "set it, or write ${env:" + name + ":-default}");
    if (!valid_utf8(*value)) return refuse("the environment variable " + name + " is not valid UTF-8");
    if (looks_secret(name, *value) || (sealed_ && value->size() >= kShortestSecret)) secrets_.push_back({name, *value});
    return *value;
  }

  Node& node_;
  bool sealed_;
  const Environment& environment_;
  std::vector<Secret>& secrets_;
  Diagnostics& faults_;
};

}  // namespace

bool begins_token(std::string_view text) {
  for (const char* start :
       {"hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ"})
    if (text.starts_with(start)) return true;
  return false;
}

bool looks_secret(const std::string& variable, const std::string& value) {
  if (value.size() < kShortestSecret) return false;
  std::string name = lower(variable);
  for (const char* word : {"token", "secret", "password", "passwd", "credential", "api_key", "apikey",
                           "private_key", "access_key", "auth"})
    if (name.find(word) != std::string::npos) return true;
  if (name.ends_with("_key") || name == "key") return true;
  return begins_token(value) && value.size() >= 16;
}

ExpandedPath expand_path(const std::string& path, const Environment& environment) {
  ExpandedPath result;
  const auto value_of = [&](const std::string& name) {
    const std::optional<std::string> value = environment(name);
    if (!value || value->empty()) result.unset = name;
    else if (looks_secret(name, *value)) result.secrets.push_back({name, *value});
    return value.value_or("");
  };
  size_t at = 0;
  if (path == "~" || path.starts_with("~/")) result.path = value_of("HOME"), at = 1;
  while (at < path.size()) {
    size_t end = at + 1;
    while (path[at] == '$' && end < path.size() && is_variable_name(path.substr(at + 1, end - at))) ++end;
    result.path += end > at + 1 ? value_of(path.substr(at + 1, end - at - 1)) : path.substr(at, 1);
    at = end;
  }
  if (!result.unset.empty()) result.path = path;
  return result;
}

namespace {

// Replaces the references below `node`. Headers hold credentials, and so does a URL before its @.
void substitute(Node& node, bool header, const Environment& environment, std::vector<Secret>& secrets, Diagnostics& faults) {
  const bool named_in_url = node.scalar.find("://") != std::string::npos && node.scalar.find('@') != std::string::npos;
  if (node.is_scalar() && node.scalar.find("${") != std::string::npos)
    Substitution(node, header || named_in_url, environment, secrets, faults).run();
  for (Node& item : node.items) substitute(item, header, environment, secrets, faults);
  for (Member& member : node.members)
    substitute(member.value, header || member.key == "headers", environment, secrets, faults);
}

}  // namespace

void substitute_environment(Node& node, const Environment& environment, std::vector<Secret>& secrets, Diagnostics& faults) {
  substitute(node, false, environment, secrets, faults);
}

}  // namespace forge
