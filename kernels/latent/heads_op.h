#pragma once
// Heads that a list orders otherwise.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// x → q, k, v of groups of heads: some of q, one of k, one of v.
extern const OpRecord regroup;
// d q, d k, d v as one → d x.
extern const OpRecord regroup_backward;
// q, kv, key → q, k, v of latent attention: the key's turned part is shared by all heads, and
// stands first.
extern const OpRecord latent_heads;
// d q, d k, d v as one → d q, d kv, d key, as they went in.
extern const OpRecord latent_heads_backward;
// x → y: the first value_dim features of each head.
extern const OpRecord trim_heads;
// d y → d x, zeros in what was cut off.
extern const OpRecord trim_heads_backward;
}  // namespace ops

}  // namespace forge
