#pragma once
// Binds the modules of a step to the tensors they are in this run.
#include <vector>

#include "core/graph/graph.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

struct BoundModule {
  const LinearSpec* linear = nullptr;  // of a linear layer
  const at::Tensor* vector = nullptr;  // of a norm, [width]; of an embedding, its table
  const at::Tensor* vector_bias = nullptr;  // of a norm that has one
  // Owners of what is trained; null: frozen.
  Trainable *weight = nullptr, *bias = nullptr, *lora_a = nullptr, *lora_b = nullptr, *magnitude = nullptr;
};

// Returns one bound module for each of `modules`, by name. Without `trainables` nothing is trained.
std::vector<BoundModule> bind_modules(const std::vector<ModuleUse>& modules, const Model& model,
                                      TrainableSet* trainables);

}  // namespace forge
