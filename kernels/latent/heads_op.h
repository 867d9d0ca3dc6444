#pragma once
// Heads that a list orders otherwise.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

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
// x → y: groups of parts, part by part.
extern const OpRecord split_groups;
// d y → d x.
extern const OpRecord split_groups_backward;
}  // namespace ops

// Returns heads of q, of k and of v from x, where they are group by group: the heads of q that
// share one of k and v, then those two.
std::array<ValueId, 3> regroup(Recorder& g, ValueId x, const Heads& heads);
// Heads of latent attention (DeepSeek-V2). Inputs: q [·, heads · head_dim];
// kv [·, heads · (head_dim − rope_dim + value_dim)], features that are not turned and values;
// key [·, rope_dim]. Results: heads of head_dim features, those to turn first. Values are filled
// up with zeros.
struct LatentSizes {
  int64_t heads = 0, head_dim = 0, rope_dim = 0, value_dim = 0;
};
std::array<ValueId, 3> latent_heads(Recorder& g, ValueId q, ValueId kv, ValueId key, const LatentSizes& heads);
// Returns x without what values were filled up with.
ValueId trim_heads(Recorder& g, ValueId x, const LatentSizes& heads);
// Features of x in groups: each has two parts of `first` and then two of `second` features.
struct GroupParts {
  int64_t groups = 0, first = 0, second = 0;
};
// Returns the first parts of all groups, then their second, third and fourth, side by side.
ValueId split_groups(Recorder& g, ValueId x, const GroupParts& parts);

}  // namespace forge
