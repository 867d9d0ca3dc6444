#include "core/model/trainable.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/lib/base/error.h"

namespace forge {

namespace {
at::Tensor slice_of(const at::Tensor& flat, const TrainedSlice& slice) {
  return flat.narrow(0, slice.offset, slice.parameter.count()).view(slice.parameter.shape);
}
}  // namespace

TrainableSet::TrainableSet(const TrainedLayout& layout, c10::ScalarType type, c10::Device device, bool master_weights)
    : layout_(layout) {
  auto options = at::TensorOptions().device(device);
  bool separate = type != at::kFloat && master_weights;
  master_ = at::zeros({layout.elements}, options.dtype(master_weights ? at::kFloat : type));
  if (separate) copy_ = at::zeros({layout.elements}, options.dtype(type));
  for (const TrainedSlice& slice : layout_.slices)
    // detach(): a leaf of its own that shares the memory.
    items_.push_back({slice.parameter, slice_of(master_, slice), {},
                      slice_of(separate ? copy_ : master_, slice).detach().requires_grad_(true)});
}

Trainable* TrainableSet::find(const std::string& name) {
  for (Trainable& item : items_)
    if (item.parameter.name == name) return &item;
  return nullptr;
}

Trainable& TrainableSet::at(const std::string& name) {
  Trainable* item = find(name);
  FORGE_CHECK(item, "the parameter list lacks " << name);
  return *item;
}

void TrainableSet::zero_grad() {
  for (WholeWeight& weight : wholes_) {
    at::Tensor& grad = weight.whole.grad;
    grad = grad.defined() ? grad.zero_() : at::zeros(weight.whole.leaf.sizes(), weight.whole.leaf.options().dtype(at::kFloat).requires_grad(false));
  }
  if (grad_.defined()) {
    grad_.zero_();
    return;
  }
  grad_ = at::zeros({elements()}, master_.options().dtype(at::kFloat));
  for (size_t i = 0; i < items_.size(); ++i) items_[i].grad = slice_of(grad_, layout_.slices[i]);
}

void TrainableSet::hand_on_gradients() {
  c10::NoGradGuard no_grad;
  for (WholeWeight& weight : wholes_) weight.hand_on(weight.whole.grad);
}

void TrainableSet::note_change() {
  c10::NoGradGuard no_grad;
  for (WholeWeight& weight : wholes_) weight.compose();
  ++changes_;
}

void TrainableSet::publish() {
  c10::NoGradGuard no_grad;
  if (copy_.defined()) copy_.copy_(master_);
  note_change();
}

}  // namespace forge
