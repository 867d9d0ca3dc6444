#pragma once
// States of many decoding texts, for the layers with a delta rule: a slot for each sequence, which
// it takes when it begins and gives back when it ends.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/families/model_spec.h"
#include "kernels/call/step_batch.h"

namespace forge {

class TextStates {
 public:
  TextStates(const ModelSpec& spec, c10::ScalarType type, c10::Device device);

  // Gives a sequence a slot if it has none.
  void open(int64_t sequence);
  // Copies the states of `from` to `to`.
  void fork(int64_t from, int64_t to);
  void release(int64_t sequence);

  // Returns where kernels find the states of these sequences.
  StatePlaces places(const std::vector<int64_t>& sequences, bool begins) const;
  // Return a layer's part of a sequence's slot: [conv_width − 1, channels], and fp32 [value heads,
  // key_dim, value_dim].
  at::Tensor columns(int64_t sequence, int64_t layer) const;
  at::Tensor matrices(int64_t sequence, int64_t layer) const;
  int64_t bytes() const;

 private:
  const at::Tensor& slot(int64_t sequence) const { return slots_[static_cast<size_t>(sequence)]; }

  const ModelSpec& spec_;
  c10::ScalarType type_;
  c10::Device device_;
  std::vector<int64_t> offsets_;   // bytes, by layer
  std::vector<at::Tensor> slots_;  // uint8, by sequence; undefined: it has none
  std::vector<at::Tensor> free_;
};

}  // namespace forge
