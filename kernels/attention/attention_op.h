#pragma once
// Attention in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// q, k, v → mixed, lse. Of a layer with sinks, modules[0] is a logit a head, which takes its share
// of the softmax and adds nothing; with a bias by position, that of each bucket of distances and
// head, added to the scores.
extern const OpRecord attention;
// q, k, v, mixed, lse, d mixed → d q, d k, d v, and into the gradient of the sinks.
extern const OpRecord attention_backward;
}  // namespace ops

// A bias of each head by distance (Raffel et al., "Exploring the limits of transfer learning",
// 2020), which the attention of many layers reads: [buckets, heads].
struct PositionBias {
  int32_t module = -1;   // none
  int64_t distance = 0;  // from which on all count alike
};
PositionBias position_bias(Recorder& g, const std::string& module, int64_t buckets, int64_t heads, int64_t distance);

struct AttentionOptions {
  double scale = 1, softcap = 0;
  int64_t window = 0, chunk = 0;
  const char* sinks = "";  // the vector with a logit for each head
  Sight sight = Sight::causal;
  PositionBias bias = {};
  bool alibi = false;  // scores grow with the keys' positions (position_bias.h)
};
ValueId attention(Recorder& g, ValueId q, ValueId k, ValueId v, const Heads& heads, const AttentionOptions& options);

}  // namespace forge
