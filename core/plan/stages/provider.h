#pragma once
// The description of a provider that the plan needs: the half without torch. The table of providers
// is in providers/providers.h, a layer above the plan; the caller of make_plan passes it in.
#include <string>
#include <vector>

#include "core/plan/memory/memory.h"
#include "core/plan/stages/attention.h"

namespace forge {

// The completions that are drawn together.
struct DecodingShape {
  int64_t prompt_tokens = 0;  // read at once
  int64_t longest_prompt = 0, max_new_tokens = 0;
  int64_t slots = 0, group = 1;  // completions, and how many share a prompt
};

struct Provider {
  const char* name;
  const char* summary;
  // Returns why it cannot do the job, a sentence each; empty if it can. Reads the forward list, no
  // sizes.
  std::vector<std::string> (*faults)(const ActivationShape& shape);
  // Returns the memory of one micro-batch beyond the fixed lines, at the moment of the peak.
  std::vector<MemoryLine> (*activation_lines)(const ActivationShape& shape);
  // Returns the name of the provider that computes attention over a cache when this one draws
  // completions, on a GPU or on a CPU, of a decoder or of an encoder-decoder.
  const char* (*decoder)(bool cuda, bool reads_source);
  // Returns the memory of drawing completions, whose activations are not among those; sizes of
  // `shape` do not count.
  std::vector<MemoryLine> (*decoding_lines)(const ActivationShape& shape, const DecodingShape& decoding);
  // Returns the kernel for an attention op, whose attributes are `of`, over sequences of up to
  // shape.longest_sequence tokens.
  Choice<Attention> (*attention)(const ActivationShape& shape, const Attributes& of);
  // Returns the workspace of an op in the arena of a step.
  int64_t (*workspace)(const Graph&, const Op&, const StepSizes&);
  // Returns the memory of a forward list that is run op by op, without an arena (fp8's gate).
  std::vector<MemoryLine> (*op_by_op_lines)(const ActivationShape& shape);
  bool aten = false;  // every op runs in ATen
};

}  // namespace forge
