#include "providers/fused/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_op.h"
#include "kernels/attention/attention_turns.h"
#include "kernels/rows/rows_args.h"

namespace forge {
namespace {

template <class T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

constexpr int64_t kAlign = 16;  // bytes: angles are read as vectors
int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

RopeTables in_fp32(const RopeTables& angles) {
  if (!angles.cos.defined()) return {};
  return {angles.cos.to(at::kFloat), angles.sin.to(at::kFloat)};
}

// Returns the largest block of a list's plain attention on a GPU by kernels that compute texts in
// turns; 0 if there is none. Attention by forge's own kernels and by ATen leaves the turns unread.
int64_t block_of_turns(const Graph& list, Element type, const ComputeDevice& device) {
  int64_t block = 0;
  for (const Op& op : list.ops) {
    if (op.kind != &ops::attention || !device.separate()) continue;
    const Attributes& a = op.attributes;
    const AttentionProblem problem{.capability = device.capability(), .type = type, .head_dim = a.head_dim, .heads = a.heads,
                                   .softcap = static_cast<float>(a.softcap)};
    if (choose_attention(problem, /*backward=*/true).kernel == AttentionKernel::efficient)
      block = std::max(block, attention_block({.type = type, .head_dim = a.head_dim}, device.capability()));
  }
  return block;
}

const float* floats_of(const at::Tensor& table) { return table.defined() ? table.const_data_ptr<float>() : nullptr; }

TokenRows rows_of(const at::Tensor& ids, const at::Tensor& positions, const RowKeys& keys) {
  return {.ids = ids.defined() ? ids.const_data_ptr<int64_t>() : nullptr,
          .position_ids = positions.defined() ? positions.const_data_ptr<int64_t>() : nullptr,
          .example = keys.example.data(),
          .position = keys.position.data()};
}

}  // namespace

BatchMemory::BatchMemory(ComputeDevice& device, const Graph& list, Element type)
    : device_(device), attention_block_(block_of_turns(list, type, device)) {}

StepBatch BatchMemory::load(const BatchTensors& batch) {
  rope_ = in_fp32(batch.rope), window_rope_ = in_fp32(batch.window_rope), grown_rope_ = in_fp32(batch.grown_rope);
  StepBatch step{
      .sequences = static_cast<int64_t>(batch.cu_seqlens.size()) - 1,
      .text = rows_of(batch.token_ids, batch.position_ids, batch.rows),
      .source = rows_of(batch.source.token_ids, batch.source.position_ids, batch.source.rows),
      .loss_positions = batch.loss_positions.const_data_ptr<int64_t>(),
      .loss_targets = batch.loss_targets.defined() ? batch.loss_targets.const_data_ptr<int64_t>() : nullptr,
      .cu_seqlens = batch.cu_seqlens.data(),
      .chunks = std::max<int64_t>(0, static_cast<int64_t>(batch.chunk_cu_seqlens.size()) - 1),
      .chunk_cu_seqlens = batch.chunk_cu_seqlens.data(),
      .cosine = floats_of(rope_.cos),
      .sine = floats_of(rope_.sin),
      .window_cosine = floats_of(window_rope_.cos),
      .window_sine = floats_of(window_rope_.sin),
      .grown_cosine = floats_of(grown_rope_.cos),
      .grown_sine = floats_of(grown_rope_.sin),
      .rotary_dim = 2 * rope_.cos.size(1),
      .window_rotary_dim = 2 * (window_rope_.cos.defined() ? window_rope_ : rope_).cos.size(1),
      .grown_dim = 2 * (grown_rope_.cos.defined() ? grown_rope_ : rope_).cos.size(1),
      .dropout = batch.training,
      .seed = batch.rows.seed,
      .step = &batch.rows.step,
      .expert_ends = &expert_ends_,
      .products = &products_};
  for (int64_t i = 0; i < step.sequences; ++i)
    step.longest = std::max<int64_t>(step.longest, step.cu_seqlens[i + 1] - step.cu_seqlens[i]);
  if (attention_block_ > 0) {
    step.turns = attention_turns(batch.cu_seqlens, attention_block_);
    step.chunk_turns = attention_turns(batch.chunk_cu_seqlens, attention_block_);
  }
  if (device_.separate()) load_separate(batch, step);
  return step;
}

// Copies the values of a tensor of this micro-batch to their place.
template <class T>
void BatchMemory::settle(const T*& values, int64_t count, char*& to) {
  if (!values || count == 0) return;
  const int64_t words = count * static_cast<int64_t>(sizeof(T)) / 4;
  device_.run(CopyRows{.element_bytes = 4, .rows = 1, .width = words, .x = values, .x_stride = words, .y = to, .y_stride = words});
  values = reinterpret_cast<const T*>(to);
  to += aligned(4 * words);
}

// Writes the numbers that LibTorch has no tensors of in one copy, and after them those of its
// tensors.
void BatchMemory::load_separate(const BatchTensors& batch, StepBatch& step) {
  const RowKeys &text = batch.rows, &of_source = batch.source.rows;
  const int64_t written = bytes_of(text.example) + bytes_of(text.position) + bytes_of(of_source.example) + bytes_of(of_source.position) +
                          bytes_of(batch.cu_seqlens) + bytes_of(batch.chunk_cu_seqlens) + static_cast<int64_t>(sizeof *step.step);
  const int64_t source = batch.source.token_ids.defined() ? batch.source.token_ids.size(0) : 0;
  const int64_t targets = batch.loss_positions.size(0), angles = batch.tokens * step.rotary_dim / 2,
                window_angles = batch.tokens * step.window_rotary_dim / 2, grown_angles = batch.tokens * step.grown_dim / 2;
  const int64_t bytes = aligned(written) + 2 * aligned(8 * batch.tokens) + 2 * aligned(8 * source) + 2 * aligned(8 * targets) +
                        2 * (aligned(4 * angles) + aligned(4 * window_angles) + (step.grown_cosine ? aligned(4 * grown_angles) : 0));
  if (rows_.bytes() < bytes) rows_.reset(), rows_ = DeviceBlock(device_, bytes, "batch");
  std::vector<char> host;
  const auto append = [&](const auto& values) {
    const auto* begin = reinterpret_cast<const char*>(values.data());
    const auto place = reinterpret_cast<decltype(values.data())>(rows_.as() + host.size());
    host.insert(host.end(), begin, begin + bytes_of(values));
    return place;
  };
  step.step = append(std::vector{*step.step});
  step.text.example = append(text.example), step.source.example = append(of_source.example);
  step.text.position = append(text.position), step.source.position = append(of_source.position);
  step.cu_seqlens = append(batch.cu_seqlens), step.chunk_cu_seqlens = append(batch.chunk_cu_seqlens);
  device_.write(rows_.as(), host.data(), written);
  char* next = rows_.as() + aligned(written);
  settle(step.text.ids, batch.tokens, next), settle(step.text.position_ids, batch.tokens, next);
  settle(step.source.ids, source, next), settle(step.source.position_ids, source, next);
  settle(step.loss_positions, targets, next);
  settle(step.loss_targets, targets, next);
  for (const float** table : {&step.cosine, &step.sine}) settle(*table, angles, next);
  for (const float** table : {&step.grown_cosine, &step.grown_sine}) settle(*table, grown_angles, next);
  for (const float** table : {&step.window_cosine, &step.window_sine}) settle(*table, window_angles, next);
}

const float* BatchMemory::on_device(const std::vector<float>& numbers) {
  if (!device_.separate()) return numbers.data();
  const int64_t bytes = bytes_of(numbers);
  if (numbers_.bytes() < bytes) numbers_.reset(), numbers_ = DeviceBlock(device_, bytes, "batch");
  device_.write(numbers_.as(), numbers.data(), bytes);
  return numbers_.as<float>();
}

}  // namespace forge
