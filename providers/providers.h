#pragma once
// The table of providers, and what the plan must know of each: the half without torch.
#include <string>
#include <vector>

#include "core/plan/memory.h"

namespace forge {

struct Provider {
  const char* name;
  const char* summary;
  // Why it cannot do the job, a sentence each; empty when it can.
  std::vector<std::string> (*faults)(const ActivationShape& shape);
  // Memory of one micro-batch beyond the fixed lines, at the moment of the peak.
  std::vector<MemoryLine> (*activation_lines)(const ActivationShape& shape);
  // What its ops need beside their values, where it lays a step out in one arena and holds that for the whole run; else null.
  int64_t (*workspace)(const Graph&, const Op&, const StepSizes&) = nullptr;
  // Whether it can only compute again what lies between two additions to the stream, as a whole.
  bool recomputes_halves = false;
};

// In the order in which `provider: auto` tries them.
const std::vector<Provider>& providers();
// Throws Error(job) for an unknown name.
const Provider& provider_named(const std::string& name);
// The one of that name where it can do the job, else the first that can; "" names none.
const Provider& able_provider(const std::string& wanted, const ActivationShape& shape);

}  // namespace forge
