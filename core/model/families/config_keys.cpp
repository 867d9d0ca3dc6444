#include "core/model/families/config_keys.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "core/lib/base/embedded_file.h"
#include "core/lib/base/error.h"

namespace forge {

const std::vector<EmbeddedFile>& embedded_config_keys();  // generated from config_keys.txt

namespace {

using Table = std::map<std::string, ConfigKeys>;

// Returns the two halves of "num_experts=num_local_experts".
std::pair<std::string, std::string> halves(const std::string& word) {
  const size_t equals = word.find('=');
  return {word.substr(0, equals), word.substr(equals + 1)};
}

void read_line(const std::string& kind, std::istringstream& words, ConfigKeys& keys) {
  std::string type;
  if (kind == "text") words >> type;
  for (std::string word; words >> word;) {
    if (kind == "reads") keys.reads.insert(word);
    if (kind == "alias") keys.aliases.insert(halves(word));
    if (kind == "idle") keys.idle.emplace(halves(word).first, Json::parse(halves(word).second));
    if (kind == "text") keys.text_defaults[type].emplace(halves(word).first, Json::parse(halves(word).second));
    if (kind == "buffers") keys.buffers.push_back(word);
  }
}

Table read_table() {
  Table table;
  ConfigKeys* keys = nullptr;
  std::istringstream lines{std::string(embedded_config_keys().at(0).text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) keys = nullptr;
    if (first.empty() || first[0] == '#') continue;
    if (keys) {
      read_line(first, words, *keys);
      continue;
    }
    keys = &table[first];
    words >> keys->architecture;
  }
  return table;
}

}  // namespace

bool ConfigKeys::is_dropout(const std::string& key) const {
  const bool named = key.find("drop") != std::string::npos;
  return named && reads.count(key) > 0;
}

const ConfigKeys* find_config_keys(const std::string& family) {
  static const Table table = read_table();
  const auto found = table.find(family);
  return found == table.end() ? nullptr : &found->second;
}

const ConfigKeys& config_keys_of(const std::string& family) {
  const ConfigKeys* found = find_config_keys(family);
  if (!found) throw Error(ErrorKind::internal, "config_keys.txt has no family " + family);
  return *found;
}

bool ignored_tensor(const ConfigKeys& keys, const std::string& name) {
  return std::any_of(keys.buffers.begin(), keys.buffers.end(),
                     [&](const std::string& buffer) { return std::regex_search(name, std::regex(buffer)); });
}

}  // namespace forge
