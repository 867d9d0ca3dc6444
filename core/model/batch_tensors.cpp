#include "core/model/batch_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/data/batch/text_groups.h"
#include "core/lib/base/error.h"
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

// Returns one side of a group. `side` is the length of a text, or of a group's longest, on that
// side; its tokens are placed by cu_seqlens.
PaddedTexts padded_texts(const TextGroup& group, const std::vector<int32_t>& cu_seqlens, int64_t TextLengths::*side, c10::Device device) {
  PaddedTexts padded{.texts = static_cast<int64_t>(group.texts.size()), .longest = group.longest.*side};
  if (padded.texts == 1) {
    padded.first = cu_seqlens[group.texts[0]];
    return padded;
  }
  std::vector<int32_t> row_of_slot, slots, rows, padding;
  for (const size_t text : group.texts)
    for (int32_t row = cu_seqlens[text]; row < cu_seqlens[text] + padded.longest; ++row) {
      const bool there = row < cu_seqlens[text + 1];
      if (there) slots.push_back(static_cast<int32_t>(row_of_slot.size())), rows.push_back(row);
      row_of_slot.push_back(there ? row : cu_seqlens[text]);
      padding.push_back(!there);
    }
  padded.row_of_slot = to_device(row_of_slot, at::kLong, device);
  padded.slots = to_device(slots, at::kLong, device), padded.rows = to_device(rows, at::kLong, device);
  if (rows.size() < row_of_slot.size()) padded.padding = to_device(padding, at::kBool, device);
  return padded;
}

// Returns where chunks begin, which are at multiples of their size, and the end of the last.
std::vector<int32_t> chunk_starts(const Batch& batch, int64_t chunk) {
  std::vector<int32_t> starts;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s)
    for (int32_t t = batch.cu_seqlens[s]; t < batch.cu_seqlens[s + 1]; ++t)
      if (t == batch.cu_seqlens[s] || batch.positions[static_cast<size_t>(t)] % chunk == 0) starts.push_back(t);
  starts.push_back(batch.cu_seqlens.back());
  return starts;
}

SourceTensors source_tensors(const Batch& batch, const ModelSpec& spec, c10::Device device) {
  SourceTensors source{.token_ids = to_device(batch.source_ids, at::kLong, device), .cu_seqlens = batch.source_cu_seqlens};
  if (spec.learned_positions) source.position_ids = to_device(batch.source_positions, at::kLong, device);
  source.rows = {.example = example_of_tokens(batch, batch.source_cu_seqlens), .position = batch.source_positions};
  // While texts are answered only those that begin have a source.
  if (batch.source_cu_seqlens.size() != batch.cu_seqlens.size()) return source;
  std::vector<TextLengths> lengths;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s)
    lengths.push_back({batch.source_cu_seqlens[s + 1] - batch.source_cu_seqlens[s], batch.cu_seqlens[s + 1] - batch.cu_seqlens[s]});
  for (const TextGroup& group : text_groups(lengths)) {
    source.groups.push_back(padded_texts(group, batch.source_cu_seqlens, &TextLengths::source, device));
    source.answer_groups.push_back(padded_texts(group, batch.cu_seqlens, &TextLengths::answer, device));
  }
  return source;
}

// Refuses a text that is longer than what an indexer chooses of it.
void require_whole_texts(const Batch& batch, const ModelSpec& spec) {
  if (spec.index_topk == 0 || batch.positions.empty()) return;
  const int64_t longest = 1 + *std::max_element(batch.positions.begin(), batch.positions.end());
  if (longest <= spec.index_topk) return;
  throw Error(ErrorKind::job,
              "a text has " + std::to_string(longest) + " tokens, and of more than index_topk, " +
                  std::to_string(spec.index_topk) + ", " + spec.architecture +
                  " attends only to those that its indexer chooses, which forge does not compute")
      .hint("use shorter texts, or generate fewer tokens");
}

}  // namespace

BatchTensors to_tensors(const Batch& batch, const ModelSpec& spec, c10::ScalarType type, c10::Device device) {
  require_whole_texts(batch, spec);
  BatchTensors out;
  out.tokens = batch.tokens();
  out.token_ids = to_device(batch.token_ids, at::kLong, device);
  const auto there = [&](const RopeTables& tables) {
    return RopeTables{to_device(tables.cos, type, device), to_device(tables.sin, type, device)};
  };
  const RopeTables angles = rope_tables(spec, spec.rope, spec.rotary_dim(), batch.positions, batch.cu_seqlens);
  out.rope = there(angles);
  if (spec.window_rope_theta > 0)
    out.window_rope = there(rope_tables(spec, spec.window_rope(), spec.window_rotary_dim(), batch.positions, batch.cu_seqlens));
  if (spec.query_growth > 0) out.grown_rope = there(grown_tables(spec, angles, batch.positions));
  if (spec.learned_positions) out.position_ids = to_device(batch.positions, at::kLong, device);
  out.cu_seqlens = batch.cu_seqlens;
  if (spec.attention_chunk > 0) out.chunk_cu_seqlens = chunk_starts(batch, spec.attention_chunk);
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
