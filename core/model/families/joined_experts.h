#pragma once
// Experts that a file holds as transformers 5 does in memory, all of a layer in two tensors, shown
// one matrix each (Qwen3.5's checkpoints):
//
//   mlp.experts.gate_up_proj  [experts, 2 · size, hidden] ─▶ mlp.experts.0.gate_proj.weight  [size, hidden], …0.up_proj.weight, …
//   mlp.experts.down_proj     [experts, hidden, size]     ─▶ mlp.experts.0.down_proj.weight  [hidden, size], …
#include <memory>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Returns the file, or a view of it where it holds such tensors and the model's parameters are
// single experts. Throws Error(environment) for a tensor of another shape.
std::unique_ptr<TensorFile> experts_apart(const ModelSpec& spec, std::unique_ptr<TensorFile> file);

}  // namespace forge
