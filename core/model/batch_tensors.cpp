#include "core/model/batch_tensors.h"

#include <ATen/ATen.h>

#include "core/tensor/dtype.h"

namespace forge {
namespace {

// [tokens]: the number of each token's sequence.
std::vector<int64_t> example_of_tokens(const Batch& batch, const std::vector<int32_t>& cu_seqlens) {
  std::vector<int64_t> examples;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s)
    examples.insert(examples.end(), static_cast<size_t>(cu_seqlens[s + 1] - cu_seqlens[s]), batch.example_ids[s]);
  return examples;
}

SourceTensors source_tensors(const Batch& batch, const ModelSpec& spec, c10::Device device) {
  SourceTensors source{.token_ids = to_device(batch.source_ids, at::kLong, device), .cu_seqlens = batch.source_cu_seqlens};
  if (spec.learned_positions) source.position_ids = to_device(batch.source_positions, at::kLong, device);
  source.rows = {.example = example_of_tokens(batch, batch.source_cu_seqlens), .position = batch.source_positions};
  return source;
}

}  // namespace

BatchTensors to_tensors(const Batch& batch, const ModelSpec& spec, c10::ScalarType type, c10::Device device) {
  BatchTensors out;
  out.tokens = batch.tokens();
  out.token_ids = to_device(batch.token_ids, at::kLong, device);
  const auto angles = [&](const RopeSpec& rope) {
    const RopeTables tables = rope_tables(spec, rope, batch.positions, batch.cu_seqlens);
    return RopeTables{to_device(tables.cos, type, device), to_device(tables.sin, type, device)};
  };
  out.rope = angles(spec.rope);
  if (spec.window_rope_theta > 0) out.window_rope = angles(spec.window_rope());
  if (spec.learned_positions) out.position_ids = to_device(batch.positions, at::kLong, device);
  out.cu_seqlens = batch.cu_seqlens;
  std::vector<int32_t> positions, targets;
  std::vector<float> weights;
  const auto add = [&](int64_t t, int32_t target, float weight) {
    positions.push_back(static_cast<int32_t>(t));
    targets.push_back(target);
    weights.push_back(weight);
  };
  if (spec.score_head)
    for (int64_t s = 0; s < batch.sequences(); ++s) add(batch.cu_seqlens[s + 1] - 1, 0, 1);
  else
    for (int64_t t = 0; t < batch.tokens(); ++t)
      if (batch.loss_weights[t] != 0) add(t, batch.targets[t], batch.loss_weights[t]);
  out.judgements = batch.judgements;
  out.loss_positions = to_device(positions, at::kLong, device);
  out.loss_targets = to_device(targets, at::kLong, device);
  out.loss_weights = to_device(weights, device);
  out.host_weights = std::move(weights);
  out.rows.position = batch.positions;
  out.rows.example = example_of_tokens(batch, batch.cu_seqlens);
  if (spec.reads_source()) out.source = source_tensors(batch, spec, device);
  return out;
}

}  // namespace forge
