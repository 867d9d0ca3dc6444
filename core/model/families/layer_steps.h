#pragma once
// The decoder layer of a described family (description.h) as text, one formula a line:
//
//   x = norm(h, input_layernorm)
//   q, k, v = linear(x, self_attn.q_proj: q_width, self_attn.k_proj: kv_width, …, bias: qkv_bias)
//   q = head_norm(q, self_attn.q_norm) if qk_norm
//   …
//   h = add(h, y)
//
// h is the stream, [tokens, hidden], before the first line and after the last. A name may be given
// again; a line with `if` or `unless` is left out of layers where its flag says so. Formulas are
// not nested. The ops are those of the recorder, in layer_ops.h; docs/family-files.md lists them.
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/recorder.h"
#include "core/job/diagnostics.h"
#include "core/model/families/spec_members.h"

namespace forge {

struct LayerOp;

// A module that a line names, with its width where it has one; or a width alone.
struct StepModule {
  std::string name;
  SizeSum size;
};

struct LayerStep {
  Position at;
  const LayerOp* op = nullptr;
  std::vector<int> in, out;         // numbers of names
  std::vector<StepModule> modules;  // of experts: router, experts, gate, up, down
  const SpecMember* bias = nullptr;
  bool always_bias = false;
  int word = 0;                        // place in the op's words
  const SpecMember* factor = nullptr;  // null: `number`
  double number = 1;
  const LayerFlag* flag = nullptr;  // null: in every layer
  bool wanted = true;               // the flag's value in layers that have the line

  bool in_layer(const ModelSpec& spec, int64_t layer) const {
    return !flag || flag->of(spec, layer) == wanted;
  }
};

struct LayerSteps {
  std::vector<std::string> names;  // of values; names[0] is h
  std::vector<LayerStep> steps;
};

constexpr const char* kLayerKey = "layer";  // of a family file, whose text is the layer
constexpr size_t kMostSteps = 200, kMostStepText = 500, kMostStepFlags = 6;

// Parses a layer whose first character is at `first`; its lines begin in the same column. Adds
// every fault: an unknown op or size, a value that is read before it is made or never, a module
// that is named twice, an op that would overwrite what another reads, an h that no line makes.
LayerSteps parse_layer(std::string_view text, const Position& first, Diagnostics& faults);
// Adds the faults of the order of a parsed layer's lines, for each way in which flags leave lines
// out.
void check_flow(const LayerSteps& layer, Diagnostics& faults);

// Returns the faults of widths in layer number `layer`, with their places: heads that do not fit, a
// sum of different widths.
std::vector<Diagnostic> width_faults(const LayerSteps& steps, const ModelSpec& spec, int64_t layer);
// Records a layer: h [tokens, hidden] → [tokens, hidden].
ValueId record_layer(const LayerSteps& steps, Recorder& g, const ModelSpec& spec, int64_t layer,
                     ValueId h);

}  // namespace forge
