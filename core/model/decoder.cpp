#include "core/model/decoder.h"

namespace forge {

Batch decoding_batch(const std::vector<NewTokens>& tokens, const std::vector<int64_t>& lengths) {
  Batch batch;
  batch.cu_seqlens = {0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<int32_t>& ids = tokens[i].ids;
    batch.token_ids.insert(batch.token_ids.end(), ids.begin(), ids.end());
    for (size_t t = 0; t < ids.size(); ++t)
      batch.positions.push_back(static_cast<int32_t>(lengths[i] + static_cast<int64_t>(t)));
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.loss_weights.resize(batch.token_ids.size(), lengths[i] > 0 && !tokens[i].last_only ? 1.0f : 0.0f);
    batch.loss_weights.back() = 1;
    batch.example_ids.push_back(tokens[i].sequence);
  }
  batch.targets.assign(batch.token_ids.size(), 0);
  return batch;
}

Batch decoding_batch(const std::vector<NewTokens>& tokens, const std::vector<int64_t>& lengths, int64_t decoder_start_id) {
  std::vector<NewTokens> answers = tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (lengths[i] == 0) answers[i].ids = {static_cast<int32_t>(decoder_start_id)};
  Batch batch = decoding_batch(answers, lengths);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (lengths[i] == 0) batch.append_source(tokens[i].ids.data(), tokens[i].ids.size());
  return batch;
}

}  // namespace forge
