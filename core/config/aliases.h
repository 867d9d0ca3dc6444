#pragma once
// Keys and values of other tools, and what they are called here. A table in aliases.cpp, one line each.
#include <string>
#include <vector>

namespace forge {

struct Alias {
  const char* name;   // as in the other tool, dotted where it matters ("lora.r")
  const char* key;    // forge's dotted key; empty when forge has none
  const char* tools;  // who calls it so
  const char* note;   // what else to know; may be empty
};

const std::vector<Alias>& aliases();
std::vector<std::string> alias_names();
// "lora_r in PEFT is adapter.rank here"; empty for a name that nobody has.
std::string alias_hint(const std::string& name);

// A value of another tool for the choice `key`: "write cosine"; empty when unknown.
std::string choice_alias(const std::string& key, const std::string& word);

}  // namespace forge
