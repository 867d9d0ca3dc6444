#pragma once
// Reads and writes the weights of a PEFT adapter folder, from and to the tensors of a run.
// core/model/families/adapter_folder.h checks what can be checked without tensors.
#include <string>
#include <vector>

#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"

namespace forge {

// Copies the folder's tensors into the masters of the run's adapter of `spec`. Throws
// Error(environment) naming every tensor that is missing, extra or of another shape.
void load_adapter(const std::string& folder, const ModelSpec& spec, TrainableSet& trainables);

// Like load_adapter(), for a checkpoint. A PiSSA run is saved with rank 2r: the first half is the
// adapter, and the second half is the part that was subtracted from the base (returned in
// `residual`).
void load_checkpoint_adapter(const std::string& folder, TrainableSet& trainables, const AdapterConfig& adapter,
                             ResidualInit* residual);

// Writes the folder, durably file by file. The caller makes the folder appear at once by renaming
// it. A PiSSA run is written as the ordinary adapter of rank 2r that has the same effect on the
// unchanged base model. `model_name` is the base model's name for adapter_config.json.
void save_adapter(const std::string& folder, const TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                  const AdapterConfig& adapter, const std::string& model_name, const ResidualInit& residual, const ModelSpec& spec);

}  // namespace forge
