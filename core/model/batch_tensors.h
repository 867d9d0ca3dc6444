#pragma once
// A Batch on the device of the run, with what every layer needs computed once: angles and dropout
// keys.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/data/batch/batch.h"
#include "core/model/families/model_spec.h"
#include "core/model/rope_tables.h"
#include "kernels/attention/attention.h"
#include "kernels/dropout/dropout.h"

namespace forge {

// Tensors that an encoder reads, for the sequences of a batch.
struct SourceTensors {
  at::Tensor token_ids, position_ids;  // int64 [source tokens]; positions of a model that learns them
  std::vector<int32_t> cu_seqlens;     // [sequences + 1], on the host
  RowKeys rows;
  std::vector<PaddedTexts> groups, answer_groups;  // of both sides (text_groups.h)
};

struct BatchTensors {
  at::Tensor token_ids;             // int64 [tokens]
  at::Tensor position_ids;          // int64 [tokens], of a model that learns positions
  RopeTables rope;                  // [tokens, rotary_dim / 2] in the compute type
  RopeTables window_rope;           // by ModelSpec::window_rope; undefined where the model has one rope
  RopeTables grown_rope;            // of queries, by ModelSpec::query_growth; undefined where they do not grow
  std::vector<int32_t> cu_seqlens;  // [sequences + 1], on the host
  std::vector<int32_t> chunk_cu_seqlens;  // [chunks + 1], on the host; empty where no attention is within chunks
  // Positions with a loss weight, in order, and their targets; for a model that gives scores, the
  // last position of each sequence. The head reads no other position.
  at::Tensor loss_positions;        // int64 [positions]
  at::Tensor loss_targets;          // int64 [positions]
  at::Tensor loss_weights;          // fp32 [positions]
  std::vector<float> host_weights;  // the same
  RowKeys rows;                     // keys of dropout and noise
  std::vector<Judgement> judgements;  // [sequences], on the host; empty where nothing is judged
  SourceTensors source;             // of an encoder-decoder
  bool training = false;            // true if dropout and noise apply
  int64_t tokens = 0;

  const RopeTables& angles(bool of_windows) const { return of_windows ? window_rope : rope; }
  const RowKeys* dropout_rows(bool of_source = false) const { return !training ? nullptr : of_source ? &source.rows : &rows; }
};

BatchTensors to_tensors(const Batch& batch, const ModelSpec& spec, c10::ScalarType type, c10::Device device);

}  // namespace forge
