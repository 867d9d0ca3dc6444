#pragma once
// Amendments: changes to a run's plan after it was frozen. A run's state is its plan.json and its
// amendments, in order. Nothing else changes a planned value.
//
//   append_amendment(folder, sealed(to_json(Amendment{.kind = AmendmentKind::settings, .changes = {…}})));
//   for (const Amendment& amendment : read_amendments(folder + "/amendments.jsonl")) …
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

enum class AmendmentKind {
  out_of_memory,  // smaller micro-batches from `step` on
  replan,         // another machine or other execution settings: `plan` replaces the one before
  settings,       // the job file's free settings changed
  extend,         // --extend: a new limit, which is part of the run's identity from now on
};

struct Amendment {
  AmendmentKind kind = AmendmentKind::settings;
  std::string reason;
  Json changes = Json::object();                // new values by the job's dotted keys, and "steps"
  std::map<std::string, std::string> identity;  // members of Plan::identity that have new values
  std::optional<Json> plan;                     // Plan, as to_json writes it
  int64_t step = 0;                             // out_of_memory: the first step with smaller ones
  int64_t micro_batch_divisor = 1;              // out_of_memory: divides the planned sizes
};

Json to_json(const Amendment& amendment);
// Reads what to_json() wrote. Throws MemberFault for a member that is missing or wrong.
Amendment amendment_from_json(const Json& json);

// Appends an amendment durably. It is given as the JSON that to_json() made, in which secrets may
// have been sealed since. Its line gets a hash of itself and of all lines before it.
void append_amendment(const std::string& path, Json amendment);
// Reads all amendments of a file. Returns none if the file does not exist. Throws
// Error(environment) "path:line: …" for a line that is damaged, or that was edited, removed or
// moved since it was written. Lines that older versions wrote have no hash.
std::vector<Amendment> read_amendments(const std::string& path);

}  // namespace forge
