#pragma once
// Holds the tensors a run trains: fp32 masters, gradients and optimizer moments, each one flat
// buffer in which a parameter is a slice. With a compute type other than fp32 the layers see a
// copy, cast once a step.
#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/model/families/trained_layout.h"

namespace forge {

struct Trainable {
  Parameter parameter;
  at::Tensor master;   // fp32 view of the flat buffer, [shape]
  at::Tensor grad;     // fp32 view, [shape]; from the first zero_grad() on
  at::Tensor leaf;     // what the layers read; the master itself in fp32. Wants gradients.
};

// Matrix that the step reads and that is computed from trained parts, outside the flat buffers
// (core/model/adapter/whole_weight.h).
struct WholeWeight {
  Trainable whole;                                      // grad from the first zero_grad() on
  std::function<void()> compose;                        // parts → whole.leaf
  std::function<void(const at::Tensor& grad)> hand_on;  // d whole → added to the parts' gradients
};

class TrainableSet {
 public:
  // Allocates the weights of `layout`, all zero. `type` is the compute type. `master_weights` false
  // keeps the weights in `type` alone (no fp32 copy).
  TrainableSet(const TrainedLayout& layout, c10::ScalarType type, c10::Device device, bool master_weights);

  std::vector<Trainable>& items() { return items_; }
  const std::vector<Trainable>& items() const { return items_; }
  Trainable* find(const std::string& name);
  Trainable& at(const std::string& name);  // checked
  void add_whole(WholeWeight weight) { wholes_.push_back(std::move(weight)); }
  std::deque<WholeWeight>& wholes() { return wholes_; }
  const TrainedLayout& layout() const { return layout_; }
  int64_t elements() const { return layout_.elements; }

  at::Tensor& master() { return master_; }  // [elements]
  at::Tensor& grad() { return grad_; }      // fp32 [elements]; from the first zero_grad() on
  at::Tensor& copy() { return copy_; }      // [elements] in the compute type; undefined where the masters are that
  // Sets gradients to zero. The first call allocates them, when the loaded model has freed the
  // weights that are trained.
  void zero_grad();
  // Adds the gradients of whole matrices to those of their parts: called once, after the last
  // micro-batch.
  void hand_on_gradients();
  // Copies masters into the leaves where they are separate; called after loading. An update does so
  // itself.
  void publish();
  // Called by whoever writes the leaves, so that what is made from them is made anew: see
  // changes().
  void note_change();
  int64_t changes() const { return changes_; }

 private:
  TrainedLayout layout_;
  std::vector<Trainable> items_;  // one for each slice
  at::Tensor master_, grad_, copy_;
  std::deque<WholeWeight> wholes_;
  int64_t changes_ = 0;
};

}  // namespace forge
