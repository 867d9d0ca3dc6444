#pragma once
// The PEFT adapter folder: adapter_model.safetensors and adapter_config.json as PEFT 0.21 writes and reads them.
#include <string>
#include <vector>

#include "core/adapter/lora.h"

namespace forge {

struct AdapterFile {
  AdapterConfig config;  // rank, alpha, patterns, use_rslora, use_dora, targets as the file has them
  std::string folder;
};

// Reads adapter_config.json. Throws Error(environment) for a folder without it, another kind than LORA, an adapter of a
// changed base (init_lora_weights: pissa, olora …), or a setting that forge would have to ignore (lora_bias …).
AdapterFile read_adapter_config(const std::string& folder);

// The modules of the model that the file changes. Throws Error(environment) where it names others.
std::vector<AdapterSite> sites_of(const AdapterFile& file, const ModelSpec& spec);
// Throws Error(environment) when a site's scale is not the folder's: the tensors would mean another update.
void require_scale_of(const std::string& folder, const ModelSpec& spec, const std::vector<AdapterSite>& sites);

// Copies the folder's tensors into the masters of the run's adapter. Throws Error(environment) naming every tensor that is missing, extra or of another shape.
void load_adapter(const std::string& folder, TrainableSet& trainables);

// As load_adapter, from a checkpoint: of a PiSSA run, which is saved with rank 2r, the first half is the adapter and the
// second half what was taken out of the base (returned in `residual`).
void load_checkpoint_adapter(const std::string& folder, TrainableSet& trainables, const AdapterConfig& adapter,
                             ResidualInit* residual);

// Writes the folder, durably file by file (the caller makes the folder appear at once by renaming it). A PiSSA run is
// written as the ordinary adapter of rank 2r that has the same effect on the unchanged base model.
void save_adapter(const std::string& folder, const TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                  const AdapterConfig& adapter, const ModelConfig& model, const ResidualInit& residual);

}  // namespace forge
