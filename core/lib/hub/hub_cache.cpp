#include "core/lib/hub/hub_cache.h"

#include <algorithm>
#include <cctype>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr int64_t kLongestRef = 256;

bool is_word(const std::string& part) {
  if (part.empty() || part.size() > 96 || part.front() == '-' || part.front() == '.' || part.back() == '-' || part.back() == '.')
    return false;
  return std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; }) &&
         part.find("--") == std::string::npos && part.find("..") == std::string::npos;
}

std::string root_of(const EnvironmentLookup& environment) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string stated = environment(name).value_or(""); !stated.empty()) return stated;
  return hub_home(environment) + "/hub";
}

}  // namespace

std::string hub_home(const EnvironmentLookup& environment) {
  const auto set = [&](const char* name) -> std::string { return environment(name).value_or(""); };
  if (const std::string home = set("HF_HOME"); !home.empty()) return home;
  const std::string caches = set("XDG_CACHE_HOME");
  return (caches.empty() ? set("HOME") + "/.cache" : caches) + "/huggingface";
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_hub_name(const std::string& text) {
  const std::vector<std::string> parts = split(text, '/');
  return (parts.size() == 1 || parts.size() == 2) && std::all_of(parts.begin(), parts.end(), is_word);
}

bool is_hub_revision(const std::string& text) {
  const std::vector<std::string> parts = split(text, '/');
  return text.size() <= 200 && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part != "." && part != ".." && part.front() != '-' &&
           part.find_first_of(std::string("\0\n\r\t\\ ?#%", 10)) == std::string::npos;
  });
}

HubCache::HubCache(const EnvironmentLookup& environment) : root_(root_of(environment)) {}

std::string HubCache::folder(const HubRepository& repository) const {
  std::string name = repository.kind == HubKind::model ? "models" : "datasets";
  for (const std::string& part : split(repository.name, '/')) name += "--" + part;
  return root_ + "/" + name;
}

std::string HubCache::commit(const HubRepository& repository) const {
  const std::string base = folder(repository);
  if (is_commit(repository.revision)) return is_directory(base + "/snapshots/" + repository.revision) ? repository.revision : "";
  const std::string ref = base + "/refs/" + repository.revision;
  if (!file_exists(ref)) return "";
  const std::string commit(trim(read_file(ref, kLongestRef, ErrorKind::environment)));
  return is_commit(commit) && is_directory(base + "/snapshots/" + commit) ? commit : "";
}

std::string HubCache::snapshot(const HubRepository& repository) const {
  const std::string found = commit(repository);
  return folder(repository) + "/snapshots/" + (found.empty() ? repository.revision : found);
}

}  // namespace forge
