#include "core/model/random_model.h"

#include <ATen/ATen.h>

#include "core/model/families/parameters.h"
#include "core/model/families/step.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/linear/linear_op.h"

namespace forge {
namespace {

at::Tensor random(at::IntArrayRef shape, c10::ScalarType type) { return at::randn(shape).mul_(0.02).to(type); }

}  // namespace

Model random_model(const ModelSpec& spec, c10::ScalarType type) {
  Model model = empty_model(spec, type, c10::DeviceType::CPU);
  model.embedding = model.head = random({spec.vocab_size, spec.hidden_size}, type);
  // Matrices of one product are adjacent, one after the other.
  const Graph list = forward_list({spec});
  for (const Op& op : list.ops) {
    if (op.kind != &ops::linear && op.kind != &ops::expert_linear) continue;
    int64_t rows = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) rows += list.module(op, i).out;
    const at::Tensor all = random({rows, list.module(op).in}, type);
    int64_t row = 0;
    for (size_t i = 0; i < op.modules.size(); row += list.module(op, i).out, ++i)
      model.linears[list.module(op, i).path].weight = all.narrow(0, row, list.module(op, i).out);
  }
  for (const Parameter& parameter : base_parameters(spec)) {
    at::Tensor& weight = *find_weight(model, parameter.name);
    if (weight.defined() && weight.sizes() == at::IntArrayRef(parameter.shape)) continue;
    const bool multiplies = parameter.role == Role::norm;
    weight = parameter.shape.size() > 1 ? random(parameter.shape, type) : (multiplies ? at::ones(parameter.shape) : at::zeros(parameter.shape)).to(type);
  }
  return model;
}

}  // namespace forge
