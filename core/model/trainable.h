#pragma once
// The tensors a run trains: fp32 masters, gradients and optimizer moments, each one flat buffer in which a parameter
// is a slice. With a compute type other than fp32 the layers see a copy, cast once a step.
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/families/parameters.h"

namespace forge {

struct Trainable {
  Parameter parameter;
  int64_t offset = 0;  // in elements; slices start on 64-byte lines
  at::Tensor master;   // fp32 view of the flat buffer, [shape]
  at::Tensor grad;     // fp32 view, [shape]; from the first zero_grad() on
  at::Tensor leaf;     // what the layers read; the master itself in fp32. Wants gradients.
};

class TrainableSet {
 public:
  // Allocates weights for the trainable ones among `parameters`, in their order, all zero. `type` is the compute
  // type. `master_weights` false keeps the weights in `type` alone (no fp32 copy).
  TrainableSet(const std::vector<Parameter>& parameters, c10::ScalarType type, c10::Device device, bool master_weights);

  std::vector<Trainable>& items() { return items_; }
  const std::vector<Trainable>& items() const { return items_; }
  Trainable* find(const std::string& name);
  int64_t elements() const { return elements_; }

  at::Tensor& master() { return master_; }  // [elements]
  at::Tensor& grad() { return grad_; }      // fp32 [elements]; from the first zero_grad() on
  // Allocates the gradients the first time, when the loaded model has let go of the weights that are trained.
  void zero_grad();
  // Copies masters into the leaves where they are separate; after every optimizer step and after loading.
  void publish();

 private:
  std::vector<Trainable> items_;
  at::Tensor master_, grad_, copy_;
  int64_t elements_ = 0;
};

}  // namespace forge
