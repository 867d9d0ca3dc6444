#pragma once
// Computes the angles of rotary embedding for every scaling that checkpoints use: default, linear,
// dynamic NTK, llama3, YaRN, LongRoPE and proportional, like transformers' modeling_rope_utils.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/families/model_spec.h"

namespace forge {

// cos and sin of `rope`, which is spec.rope or spec.window_rope(), for packed positions, fp32 on
// the CPU, [tokens, rotary_dim / 2] each; `rotary_dim` is the spec's for it. Sequences are given by
// cu_seqlens, so that a sequence's angles never depend on its neighbours in the pack.
struct RopeTables {
  at::Tensor cos, sin;
};
RopeTables rope_tables(const ModelSpec& spec, const RopeSpec& rope, int64_t rotary_dim, const std::vector<int32_t>& positions,
                       const std::vector<int32_t>& cu_seqlens);
// Returns the tables times what a query grows by at its position (ModelSpec::query_growth). Where
// it grows apart from its turn: the factors alone, [tokens, grown_dim / 2], and sines of zero.
RopeTables grown_tables(const ModelSpec& spec, const RopeTables& tables, const std::vector<int32_t>& positions);

}  // namespace forge
