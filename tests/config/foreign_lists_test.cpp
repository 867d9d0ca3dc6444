// Checks every flag of OpenRLHF 0.3 to 0.11, and the keys of five systems that forge replaces: each
// has a counterpart or a reason, in its section and by its last component.
#include <fstream>
#include <set>

#include "core/job/field.h"
#include "core/job/load.h"
#include "core/job/parse.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::vector<std::string> names_in(const std::string& file) {
  std::ifstream stream(std::string(FORGE_SOURCE_DIR) + "/tests/config/" + file);
  std::vector<std::string> names;
  for (std::string line; std::getline(stream, line);)
    if (!line.empty() && line[0] != '#') names.push_back(line);
  return names;
}

// Returns a job that states this key and no other unknown one. Keys of forge's own sections go
// below them.
std::string job_with(const std::string& name) {
  std::string text = "version: 1\n";
  const std::vector<std::string> parts = split(name, '.');
  std::string own;
  for (size_t i = 0; i < parts.size(); ++i)
    own += std::string(2 * i, ' ') + parts[i] + (i + 1 == parts.size() ? ": 1\n" : ":\n");
  if (parts[0] == "model") own.insert(own.find('\n') + 1, "  path: m\n");
  if (parts[0] == "data") own.insert(own.find('\n') + 1, "  train: a.jsonl\n");
  if (parts[0] != "model") text += "model: m\n";
  if (parts[0] != "data") text += "data: {train: a.jsonl}\n";
  return text + own;
}

// True for an answer of the table, or one that names where forge's own key stands. A guess at a
// misspelling could be any key's.
bool is_listed(const std::string& hint) {
  const bool counterpart = hint.find(" is ") != std::string::npos && hint.find(" here") != std::string::npos;
  return counterpart || hint.find(" has no counterpart") != std::string::npos || starts_with(hint, "it is ") ||
         starts_with(hint, "write it as ");
}

// Returns why the answer to this key would not help a user; empty if it is valid, or if it or a
// section above it is answered.
std::string unanswered(const TemporaryFolder& folder, const std::string& name) {
  if (find_field(name)) return "";
  folder.write("job.yaml", job_with(name));
  try {
    load_job("job.yaml", {.cwd = folder.path()});
    return name + ": is accepted";
  } catch (const JobErrors& errors) {
    for (const Diagnostic& fault : errors.faults())
      if ((name == fault.key || starts_with(name, fault.key + ".")) && is_listed(fault.hint)) return "";
    return errors.what();
  }
}

void check(const std::string& file, size_t least) {
  TemporaryFolder folder;
  const std::vector<std::string> names = names_in(file);
  CHECK(names.size() >= least);
  for (const std::string& name : names)
    for (const std::string& key : {name, name.substr(name.rfind('.') + 1)}) {
      INFO(name << " as " << key);
      CHECK(unanswered(folder, key) == "");
    }
}

}  // namespace

TEST_CASE("every flag of OpenRLHF has a counterpart or a reason") { check("openrlhf_flags.txt", 360); }
TEST_CASE("every key of the systems that forge is to stand for has a counterpart or a reason") { check("seed_keys.txt", 200); }
