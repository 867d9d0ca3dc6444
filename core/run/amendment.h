#pragma once
// What changed of a run's plan after it was frozen. A run's state is its plan.json and these, in order; nothing else
// changes a planned value.
//
//   append_amendment(folder, sealed(to_json(Amendment{.kind = AmendmentKind::settings, .changes = {…}})));
//   for (const Amendment& amendment : read_amendments(folder + "/amendments.jsonl")) …
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge {

enum class AmendmentKind {
  out_of_memory,  // smaller micro-batches from `step` on
  replan,         // another machine or other execution settings: `plan` in place of the one before
  settings,       // the job file's free settings changed
  extend,         // --extend: a new limit, which is part of the run's identity from now on
};

struct Amendment {
  AmendmentKind kind = AmendmentKind::settings;
  std::string reason;
  Json changes = Json::object();                // new values by the job's dotted keys, and "steps"
  std::map<std::string, std::string> identity;  // members of Plan::identity that have new values
  std::optional<Json> plan;                     // Plan, as to_json writes it
  int64_t step = 0;                             // of out_of_memory: the first one with smaller micro-batches
  int64_t micro_batch_divisor = 1;              // by which the planned ones are smaller
};

Json to_json(const Amendment& amendment);
// Throws MemberFault.
Amendment amendment_from_json(const Json& json);

// Appends one durably, as text that to_json made; secrets may have been sealed in it since. It gets a hash of itself
// and all before it.
void append_amendment(const std::string& path, Json amendment);
// Nothing for a file that does not exist. Throws Error(environment) "path:line: …" for a line that is damaged, or was
// edited, removed or moved since it was written. Lines of older versions state no hash.
std::vector<Amendment> read_amendments(const std::string& path);

}  // namespace forge
