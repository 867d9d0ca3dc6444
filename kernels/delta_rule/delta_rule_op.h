#pragma once
// The gated delta rule in a list, and Mamba-2's state space, which is computed alike.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// b, a → gates in fp32: the logarithms of the decays of all heads, then their β. modules: a_log,
// dt_bias.
extern const OpRecord delta_gates;
// d gates, b, a → d b, d a, and into the gradients of a_log and dt_bias.
extern const OpRecord delta_gates_backward;
// q, k, v, gates → y.
extern const OpRecord delta_rule;
// d y, q, k, v, gates → d q, d k, d v, d gates.
extern const OpRecord delta_rule_backward;
// a → gates in fp32: the logarithms of the decays of all heads, then their steps. modules: a_log,
// dt_bias.
extern const OpRecord step_gates;
// d gates, a → d a, and into the gradients of a_log and dt_bias.
extern const OpRecord step_gates_backward;
// q, k, v, gates → y. modules: skip.
extern const OpRecord state_space;
// d y, q, k, v, gates → d q, d k, d v, d gates, and into the gradient of skip.
extern const OpRecord state_space_backward;
}  // namespace ops

// Returns the gates of heads whose b and a [·, heads] are given.
ValueId delta_gates(Recorder& g, ValueId b, ValueId a, const char* a_log, const char* dt_bias);

// Heads of q and k, and of v: value_heads is a multiple of key_heads.
struct DeltaHeads {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
};
// q, k [·, key_heads · key_dim], v → [·, value_heads · value_dim]; q and k are normed inside.
ValueId delta_rule(Recorder& g, ValueId q, ValueId k, ValueId v, ValueId gates,
                   const DeltaHeads& heads);

// Returns the gates of a state space's heads, whose a [·, heads] is given.
ValueId step_gates(Recorder& g, ValueId a, const char* a_log, const char* dt_bias,
                   double least_step = 0);
// q, k [·, key_heads · key_dim], v → [·, value_heads · value_dim].
ValueId state_space(Recorder& g, ValueId q, ValueId k, ValueId v, ValueId gates,
                    const DeltaHeads& heads, const char* skip);

DeltaHeads delta_heads_of(const Attributes& attributes);

}  // namespace forge
