#pragma once
// The layout of trained parameters in the flat buffers of weights and gradients, and the
// optimizer's state of each. The plan counts it, the engine allocates it, checkpoints name it.
//
//   optimizer    state of an element                                          bytes
//   adamw        exp_avg, exp_avg_sq                                          8
//   adamw_8bit   both as codes of a byte, with the largest of each 256 values  2.03
//   lion         exp_avg                                                      4
//   sgd          momentum; nothing without                                    4
//   adafactor    exp_avg_sq_row and exp_avg_sq_col of a matrix [rows, columns]  4 a row and a column
//                exp_avg_sq of a vector                                       4
//   muon         momentum of a hidden matrix                                  4
//                exp_avg, exp_avg_sq of all else                              8
//   schedule_free  z, exp_avg_sq                                              8
//
// adamw_8bit keeps fp32 state, like bitsandbytes under transformers, for embeddings and for tensors
// of fewer than 4,096 elements. muon's hidden matrices are the weights of linear layers inside
// decoder layers, and the factors of their adapters.
//
// State of 8 bits begins with each tensor at a block of its own, so that no tensor shares a scale
// with its neighbour.
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/families/parameters.h"

namespace forge {

// Elements that are updated at once by an update that needs workspace.
inline constexpr int64_t kUpdateChunk = 1 << 16;

// Kind of a parameter's optimizer state.
enum class StateKind {
  plain,   // fp32, element by element
  coded,   // in 8 bits
  matrix,  // for the matrix as a whole: its update sees rows and columns
};

// The tensors of a row of experts (Parameter::copies) are one slice, in which each is padded. A run
// has no rows.
struct TrainedSlice {
  Parameter parameter;
  int64_t offset = 0;        // in elements of the flat buffers
  int64_t padded = 0;        // elements up to the next slice: of all its copies
  StateKind state = StateKind::plain;
  int64_t state_offset = 0;  // among the slices whose state is of the same kind
  int64_t row_offset = 0, column_offset = 0;  // in parts with a value for each row or column

  int64_t columns() const { return parameter.shape.back(); }
  int64_t rows() const { return parameter.count() / columns(); }
};

// A flat buffer of optimizer state.
struct StatePart {
  enum class Of { element, row, column };

  std::string name;  // "exp_avg"
  StateKind kind = StateKind::plain;  // kind of the slices that it holds
  Of of = Of::element;                // the unit that has one value
  bool bytes_only = false;  // uint8, else fp32
  int64_t block = 1;        // elements that share one value
  int64_t values = 0;

  int64_t bytes() const { return values * (bytes_only ? 1 : 4); }
  // Return the first value of a slice, and its number of values without padding.
  int64_t begin(const TrainedSlice& slice) const;
  int64_t count(const TrainedSlice& slice) const;
};

struct TrainedLayout {
  std::vector<TrainedSlice> slices;
  int64_t elements = 0;  // elements, with the padding between slices
  std::vector<StatePart> state;
  bool averages = false;      // a checkpoint has the weights' average, and the trained weights beside it
  int64_t working_bytes = 0;  // workspace of an update, beside weights, gradients and state

  int64_t state_bytes() const;
  // Returns the bytes that an update reads and writes: weights, gradients, state, and a copy of the
  // weights of `copy_bytes` an element.
  int64_t update_bytes(int64_t copy_bytes) const;
};

// Returns the layout of the trainable parameters among `parameters`, in their order.
TrainedLayout trained_layout(const std::vector<Parameter>& parameters, const OptimizerConfig& optimizer = {});

// Returns (0.9, 0.99) for Lion and (0.9, 0.999) for every other type, which are the values of
// Lion's and Adam's authors.
std::vector<double> default_betas(OptimizerType type);
// Returns 0.95 for muon, else 0.
double default_momentum(OptimizerType type);
// True if the whole update is one of forge's kernels (kernels/optimizer). The others are composed
// of LibTorch's operations.
bool has_update_kernel(OptimizerType type);

}  // namespace forge
