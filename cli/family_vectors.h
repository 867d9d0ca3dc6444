#pragma once
// Compares a model with vectors that scripts/family_vectors.py took from transformers.
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/progress.h"
#include "core/lib/io/json.h"
#include "core/model/families/model_spec.h"

namespace forge {

// One comparison: the largest difference, and the one that is allowed.
struct VectorRow {
  std::string what;
  double difference = 0, limit = 0;
  std::string note;

  bool holds() const { return difference <= limit; }
};

// Reads a file of vectors. Throws Error(environment) for one that is damaged or of another model.
Json read_vectors(const std::string& path, const ModelSpec& spec);

// Returns the comparisons of logits, gradients, names of parameters and text. Computes them with
// the engine on the CPU in fp32; the gradients are the change of one step of training.
std::vector<VectorRow> compare_vectors(const Json& vectors, const ModelConfig& model,
                                       const ModelSpec& spec, const Arguments& args,
                                       Progress& progress);

}  // namespace forge
