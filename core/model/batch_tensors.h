#pragma once
// A Batch on the device of the run, with what every layer needs computed once: angles and dropout keys.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/data/batch/batch.h"
#include "core/families/model_spec.h"
#include "core/model/rope_tables.h"
#include "kernels/dropout/dropout.h"

namespace forge {

struct BatchTensors {
  at::Tensor token_ids;             // int64 [tokens]
  at::Tensor position_ids;          // int64 [tokens], of a model that learns positions
  RopeTables rope;                  // [tokens, rotary_dim / 2] in the compute type
  RopeTables window_rope;           // by ModelSpec::window_rope; undefined where the model has one rope
  std::vector<int32_t> cu_seqlens;  // [sequences + 1], on the host
  // Positions with a loss weight, in order, and what stands there; of a model that gives scores the last of each sequence.
  // The head looks at no other.
  at::Tensor loss_positions;        // int64 [positions]
  at::Tensor loss_targets;          // int64 [positions]
  at::Tensor loss_weights;          // fp32 [positions]
  std::vector<float> host_weights;  // the same
  RowKeys rows;                     // keys of dropout and noise
  std::vector<Judgement> judgements;  // [sequences], on the host; empty where nothing is judged
  bool training = false;            // whether dropout and noise apply
  int64_t tokens = 0;

  const RopeTables& angles(bool of_windows) const { return of_windows ? window_rope : rope; }
  const RowKeys* dropout_rows() const { return training ? &rows : nullptr; }
};

BatchTensors to_tensors(const Batch& batch, const ModelSpec& spec, c10::ScalarType type, c10::Device device);

}  // namespace forge
