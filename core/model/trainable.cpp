#include "core/model/trainable.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace forge {

namespace {
constexpr int64_t kLineElements = 16;  // 64 bytes of fp32

at::Tensor slice(const at::Tensor& flat, const Trainable& item) {
  return flat.narrow(0, item.offset, item.parameter.count()).view(item.parameter.shape);
}
}  // namespace

TrainableSet::TrainableSet(const std::vector<Parameter>& parameters, c10::ScalarType type, c10::Device device,
                           bool master_weights) {
  for (const Parameter& parameter : parameters) {
    if (!parameter.trainable) continue;
    items_.push_back({.parameter = parameter, .offset = elements_});
    elements_ += (parameter.count() + kLineElements - 1) / kLineElements * kLineElements;
  }
  auto options = at::TensorOptions().device(device);
  bool separate = type != at::kFloat && master_weights;
  master_ = at::zeros({elements_}, options.dtype(master_weights ? at::kFloat : type));
  if (separate) copy_ = at::zeros({elements_}, options.dtype(type));
  for (Trainable& item : items_) {
    item.master = slice(master_, item);
    // detach(): a leaf of its own that shares the memory.
    item.leaf = slice(separate ? copy_ : master_, item).detach().requires_grad_(true);
  }
}

Trainable* TrainableSet::find(const std::string& name) {
  for (Trainable& item : items_)
    if (item.parameter.name == name) return &item;
  return nullptr;
}

void TrainableSet::zero_grad() {
  if (grad_.defined()) {
    grad_.zero_();
    return;
  }
  grad_ = at::zeros({elements_}, master_.options().dtype(at::kFloat));
  for (Trainable& item : items_) item.grad = slice(grad_, item);
}

void TrainableSet::publish() {
  c10::NoGradGuard no_grad;
  if (copy_.defined()) copy_.copy_(master_);
}

}  // namespace forge
