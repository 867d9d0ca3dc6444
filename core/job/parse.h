#pragma once
// Reads nodes into structs, by the field tables.
//
//   Parsed parsed;
//   parse_section(root, job_fields(), &job, "", parsed, faults);
//   parsed.given["adapter.rank"].text();     // "job.yaml:3:9"
//
// Only keys that are present are written; all others keep their defaults. null and a blank value
// count as absent. Every fault is added to `faults`, and parsing goes on.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/node.h"

namespace forge {

struct Parsed {
  std::map<std::string, Position> given;  // dotted key → place of its value; list items as data.train[0].path
  std::set<std::string> off;              // keys whose value is 0 or false
  bool complete = true;                   // false: a file could not be read, so nothing counts as missing
};

// Makes a text that is stated at a place an absolute path. An empty function leaves it as it is.
using ResolvePath = std::function<std::string(const std::string& path, const Position& at)>;

void parse_section(const Node& node, const std::vector<Field>& fields, void* object,
                   const std::string& prefix, const ResolvePath& resolve, Parsed& parsed,
                   Diagnostics& faults);

// Returns "a, b or c".
std::string alternatives(const std::vector<std::string>& words);

// Returns the reason why `field` does not take a value: "0.1 is not a whole number"; empty if it
// does.
std::string value_problem(const Field& field, const std::string& key, const Node& node);

// Adds the faults of a key of `map` that the section `prefix` ("", "optimizer.", "data.train[0].")
// does not have, and of the keys below it. A fault says what the key is here, why forge has none,
// or which name of the section it probably misspells.
void refuse_unknown_key(const Member& member, const Node& map, const std::string& prefix,
                        Diagnostics& faults);

}  // namespace forge
