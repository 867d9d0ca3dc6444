#include "core/job/environment.h"

#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kShortestSecret = 4;  // hiding a shorter one would hide half of every text

constexpr std::string_view kSmall = "abcdefghijklmnopqrstuvwxyz";

bool is_variable_name(const std::string& name) {
  static const std::string letters = std::string(kSmall) + "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && letters.find(name[0]) != letters.npos &&
         name.find_first_not_of(letters + "0123456789") == name.npos;
}

bool is_capital(const std::string& name) { return name.find_first_of(kSmall) == std::string::npos; }

class Substitution {
 public:
  Substitution(const Environment& environment, std::vector<Secret>& secrets, Diagnostics& faults)
      : environment_(environment), secrets_(secrets), faults_(faults) {}

  // Replaces the references below `node`. Headers hold credentials, and so does a URL before its @:
  // there every variable counts as a secret, whatever its name.
  void below(Node& node, bool header) {
    const auto has = [&](const char* part) { return node.scalar.find(part) != std::string::npos; };
    if (node.is_scalar() && has("${")) replace(node, header || (has("://") && has("@")));
    for (Node& item : node.items) below(item, header);
    for (Member& member : node.members) below(member.value, header || member.key == "headers");
  }

 private:
  void replace(Node& node, bool sealed) {
    const std::string text = node.scalar;
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
        refuse(node, "${ is not closed",
               "write ${env:NAME} or ${env:NAME:-default}, or $${ for the text ${");
        return;
      }
      result += text.substr(at, open - at);
      result += value_of(text.substr(open + 2, close - open - 2), node, sealed);
      at = close + 1;
    }
    if (node.faulty) return;  // stays as written: not an empty value
    node.scalar = result + text.substr(at);
    node.quoting = Quoting::either;
    if (node.scalar.empty()) node.kind = NodeKind::null;
  }
  std::string refuse(Node& node, std::string message, std::string hint = "") {
    node.faulty = true;
    faults_.add(node.at, "", std::move(message), std::move(hint));
    return "";
  }
  // ${NAME} in capitals is a shell's spelling of ${env:NAME}. ${name} is another tool's reference
  // to a key.
  std::string value_of(const std::string& written, Node& node, bool sealed) {
    const bool stated = written.starts_with("env:");
    const std::string reference = stated ? written.substr(4) : written;
    const size_t fallback = reference.find(":-");
    const bool has_fallback = fallback != std::string::npos;
    const std::string name = reference.substr(0, fallback);
    if (!is_variable_name(name) || (!stated && !is_capital(name)))
      return refuse(node, "${" + written + "} does not name an environment variable",
                    "write the value itself, or ${env:NAME} or ${env:NAME:-default}; $${ is the text ${");
    std::optional<std::string> value = environment_(name);
    // The default also replaces an empty variable, as in a shell.
    if (has_fallback && (!value || value->empty())) return reference.substr(fallback + 2);
    if (!value)
      return refuse(node, "the environment variable " + name + " is not set",
                    "set it, or write ${env:" + name + ":-default}");
    if (!valid_utf8(*value))
      return refuse(node, "the environment variable " + name + " is not valid UTF-8");
    if (looks_secret(name, *value) || (sealed && value->size() >= kShortestSecret))
      secrets_.push_back({name, *value});
    return *value;
  }

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

void substitute_environment(Node& node, const Environment& environment, std::vector<Secret>& secrets, Diagnostics& faults) {
  Substitution(environment, secrets, faults).below(node, false);
}

}  // namespace forge
