#include "core/model/random_model.h"

#include <ATen/ATen.h>

#include "core/families/modules.h"
#include "core/families/parameters.h"
#include "core/families/step.h"

namespace forge {
namespace {

at::Tensor random(at::IntArrayRef shape, c10::ScalarType type) { return at::randn(shape).mul_(0.02).to(type); }

}  // namespace

Model random_model(const ModelSpec& spec, c10::ScalarType type) {
  Model model{.spec = spec, .type = type};
  model.embedding = model.head = random({spec.vocab_size, spec.hidden_size}, type);
  const Graph list = forward_list({spec});
  for (const ModuleUse& module : list.modules)
    if (module.kind == ModuleKind::embedding && module.path + ".weight" != embedding_name(spec))
      model.tables[module.path] = random({module.out, module.in}, type);
  for (const Op& op : list.ops) {
    if (op.kind == OpKind::norm || op.kind == OpKind::layer_norm) {
      const ModuleUse& norm = list.module(op);
      model.norms[norm.path] = at::ones({norm.out}).to(type);
      if (norm.bias) model.norm_biases[norm.path] = at::zeros({norm.out}).to(type);
    }
    if (op.kind != OpKind::linear && op.kind != OpKind::expert_linear) continue;
    int64_t rows = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) rows += list.module(op, i).out;
    const at::Tensor all = random({rows, list.module(op).in}, type);
    int64_t row = 0;
    for (size_t i = 0; i < op.modules.size(); row += list.module(op, i).out, ++i) {
      const ModuleUse& module = list.module(op, i);
      model.linears[module.path].weight = all.narrow(0, row, module.out);
      if (module.bias) model.linears[module.path].bias = at::zeros({module.out}).to(type);
    }
  }
  // What no two products share: vectors, and experts in one tensor.
  for (const Module& module : modules_of(spec))
    if (module.role == Role::vector) model.norms[module.path];
  for (const Parameter& parameter : base_parameters(spec)) {
    at::Tensor* weight = find_weight(model, parameter.name);
    if (!weight || (weight->defined() && weight->sizes() == at::IntArrayRef(parameter.shape))) continue;
    *weight = parameter.shape.size() > 1 ? random(parameter.shape, type) : at::zeros(parameter.shape).to(type);
  }
  return model;
}

}  // namespace forge
