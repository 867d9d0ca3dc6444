#include "core/model/batch_tensors.h"

#include <ATen/ATen.h>

#include "core/data/batch/text_groups.h"
#include "core/model/dtype.h"

namespace forge {
namespace {

// Returns the number of each token's example, [tokens].
std::vector<int64_t> example_of_tokens(const Batch& batch, const std::vector<int32_t>& cu_seqlens) {
  std::vector<int64_t> examples;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s)
    examples.insert(examples.end(), static_cast<size_t>(cu_seqlens[s + 1] - cu_seqlens[s]), batch.example_ids[s]);
  return examples;
}

// Returns one side of the groups, padded. `side` is the length of a text, or of a group's longest,
// on that side; its tokens are placed by cu_seqlens.
PaddedTexts padded_texts(const std::vector<TextGroup>& groups, const std::vector<int32_t>& cu_seqlens, int64_t TextLengths::*side,
                         c10::Device device) {
  PaddedTexts padded;
  std::vector<int32_t> row_of_slot, slot_of_row(static_cast<size_t>(cu_seqlens.back())), padding;
  for (const TextGroup& group : groups) {
    const int64_t longest = group.longest.*side;
    padded.texts.push_back(static_cast<int64_t>(group.texts.size())), padded.longest.push_back(longest);
    for (const size_t text : group.texts)
      for (int32_t row = cu_seqlens[text]; row < cu_seqlens[text] + longest; ++row) {
        const bool there = row < cu_seqlens[text + 1];
        if (there) slot_of_row[static_cast<size_t>(row)] = static_cast<int32_t>(row_of_slot.size());
        row_of_slot.push_back(there ? row : cu_seqlens[text]);
        padding.push_back(!there);
      }
  }
  padded.row_of_slot = to_device(row_of_slot, at::kLong, device), padded.slot_of_row = to_device(slot_of_row, at::kLong, device);
  padded.padding = to_device(padding, at::kBool, device);
  return padded;
}

SourceTensors source_tensors(const Batch& batch, const ModelSpec& spec, c10::Device device) {
  SourceTensors source{.token_ids = to_device(batch.source_ids, at::kLong, device), .cu_seqlens = batch.source_cu_seqlens};
  if (spec.learned_positions) source.position_ids = to_device(batch.source_positions, at::kLong, device);
  source.rows = {.example = example_of_tokens(batch, batch.source_cu_seqlens), .position = batch.source_positions};
  // While texts are answered only those that begin have a source.
  if (batch.sequences() < 2 || batch.source_cu_seqlens.size() != batch.cu_seqlens.size()) return source;
  std::vector<TextLengths> lengths;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s)
    lengths.push_back({batch.source_cu_seqlens[s + 1] - batch.source_cu_seqlens[s], batch.cu_seqlens[s + 1] - batch.cu_seqlens[s]});
  const std::vector<TextGroup> groups = text_groups(lengths);
  source.groups = padded_texts(groups, batch.source_cu_seqlens, &TextLengths::source, device);
  source.answer_groups = padded_texts(groups, batch.cu_seqlens, &TextLengths::answer, device);
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
