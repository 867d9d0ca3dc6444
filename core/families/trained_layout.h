#pragma once
// Where each trained parameter lies in the flat buffers of weights and gradients, and what the optimizer keeps of it. The plan
// counts it, the engine allocates it, checkpoints name it.
//
//   optimizer    state of an element                                          bytes
//   adamw        exp_avg, exp_avg_sq                                          8
//   adamw_8bit   both as codes of a byte, with the largest of each 256 values  2.03
//   lion         exp_avg                                                      4
//   sgd          momentum; nothing without                                    4
//
// adamw_8bit keeps fp32 state, like bitsandbytes under transformers, for embeddings and for tensors of fewer than 4,096 elements.
#include <cstdint>
#include <string>
#include <vector>

#include "core/families/parameters.h"

namespace forge {

struct TrainedSlice {
  Parameter parameter;
  int64_t offset = 0;        // in elements of the flat buffers
  int64_t padded = 0;        // elements up to the next slice
  bool coded = false;        // state in 8 bits
  int64_t state_offset = 0;  // among the slices whose state is of the same kind
};

// A flat buffer of optimizer state.
struct StatePart {
  std::string name;         // "exp_avg"
  bool coded = false;       // holds the slices with coded state, else the others
  bool bytes_only = false;  // uint8, else fp32
  int64_t block = 1;        // elements that share one value
  int64_t values = 0;

  int64_t bytes() const { return values * (bytes_only ? 1 : 4); }
  // Of a slice: its first value, and how many it has without padding.
  int64_t begin(const TrainedSlice& slice) const { return slice.state_offset / block; }
  int64_t count(const TrainedSlice& slice) const { return (slice.parameter.count() + block - 1) / block; }
};

struct TrainedLayout {
  std::vector<TrainedSlice> slices;
  int64_t elements = 0;  // with the padding between slices
  std::vector<StatePart> state;

  int64_t state_bytes() const;
  // What an update reads and writes: weights, gradients, state, and a copy of the weights of `copy_bytes` an element.
  int64_t update_bytes(int64_t copy_bytes) const;
};

// Of the trainable ones among `parameters`, in their order.
TrainedLayout trained_layout(const std::vector<Parameter>& parameters, const OptimizerConfig& optimizer = {});

// (0.9, 0.999) as Adam's authors have it, (0.9, 0.99) as Lion's.
std::vector<double> default_betas(OptimizerType type);

}  // namespace forge
