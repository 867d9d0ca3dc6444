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
  // Whether it holds that memory for the whole run.
  bool keeps_memory = false;
};

// In the order in which `provider: auto` tries them.
const std::vector<Provider>& providers();
// Throws Error(job) for an unknown name.
const Provider& provider_named(const std::string& name);
// The one of that name where it can do the job, else the first that can; "" names none.
const Provider& able_provider(const std::string& wanted, const ActivationShape& shape);

}  // namespace forge
