#pragma once
// The weights of a PEFT adapter folder, in and out of the tensors of a run. What can be said without them:
// core/plan/files/adapter_folder.h.
#include <string>
#include <vector>

#include "core/adapter/lora.h"
#include "core/families/adapter_sites.h"

namespace forge {

// Copies the folder's tensors into the masters of the run's adapter. Throws Error(environment) naming every tensor that is missing, extra or of another shape.
void load_adapter(const std::string& folder, TrainableSet& trainables);

// As load_adapter, from a checkpoint: of a PiSSA run, which is saved with rank 2r, the first half is the adapter and the
// second half what was taken out of the base (returned in `residual`).
void load_checkpoint_adapter(const std::string& folder, TrainableSet& trainables, const AdapterConfig& adapter,
                             ResidualInit* residual);

// Writes the folder, durably file by file (the caller makes the folder appear at once by renaming it). A PiSSA run is
// written as the ordinary adapter of rank 2r that has the same effect on the unchanged base model. `model_name` is the
// base model's, as adapter_config.json says it.
void save_adapter(const std::string& folder, const TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                  const AdapterConfig& adapter, const std::string& model_name, const ResidualInit& residual, const ModelSpec& spec);

}  // namespace forge
