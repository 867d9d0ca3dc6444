#include "core/model/bound.h"

#include <map>

#include "core/lib/base/error.h"
#include "core/model/families/modules.h"

namespace forge {

std::vector<BoundModule> bind_modules(const std::vector<ModuleUse>& modules, const Model& model,
                                      TrainableSet* trainables) {
  std::map<std::string, Trainable*> owners;  // by the name of the base tensor, or of the adapter's own
  const auto own = [&](Trainable& item) {
    const std::string base = base_name(item.parameter);
    owners[base.empty() ? item.parameter.name : base] = &item;
  };
  if (trainables) {
    for (Trainable& item : trainables->items()) own(item);
    for (WholeWeight& weight : trainables->wholes()) own(weight.whole);
  }
  const auto owner = [&](const std::string& name) {
    auto found = owners.find(name);
    return found == owners.end() ? nullptr : found->second;
  };
  std::vector<BoundModule> bound;
  for (const ModuleUse& module : modules) {
    BoundModule b{.linear = find_linear(const_cast<Model&>(model), module.path)};
    const std::string weight = weight_name(module), bias = bias_name(module);
    if (!b.linear) b.vector = find_weight(const_cast<Model&>(model), weight);
    if (b.vector && module.bias) b.vector_bias = find_weight(const_cast<Model&>(model), bias);
    FORGE_CHECK(b.linear || b.vector, "the model has no weights for " << module.path);
    b.weight = owner(weight);
    b.bias = owner(bias);
    const std::string& adapter = module.adapter.empty() ? module.path : module.adapter;
    b.lora_a = owner(adapter + ".lora_A.weight");
    b.lora_b = owner(adapter + ".lora_B.weight");
    b.magnitude = owner(adapter + ".lora_magnitude_vector");
    bound.push_back(b);
  }
  return bound;
}

}  // namespace forge
