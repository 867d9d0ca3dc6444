#pragma once
// What the plan must know of a provider: the half without torch. The table of them is providers/providers.h, which lies
// above the plan; whoever makes a plan hands it over.
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

}  // namespace forge
