#pragma once
// What the plan must know of a provider: the half without torch. The table of them is providers/providers.h, which lies
// above the plan; the caller of make_plan passes it in.
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
  // Workspace of its ops, for a provider that lays a step out in one arena for the whole run; else null.
  int64_t (*workspace)(const Graph&, const Op&, const StepSizes&) = nullptr;
  // Whether it can only compute again what lies between two additions to the stream, as a whole.
  bool recomputes_halves = false;
};

}  // namespace forge
