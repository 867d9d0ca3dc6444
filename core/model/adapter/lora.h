#pragma once
// Low-rank adapters on a loaded model: connects the trainable A, B and magnitude to the linear
// layers and gives them their first values. Layers read LinearSpec and need not know the kind of
// adapter.
#include <map>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Points every site's LinearSpec at its trainable leaves, with scale and dropout.
void attach_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                    const AdapterConfig& adapter);

// The first A and B of each module where they are a part of the base weight (changes_base), which
// was subtracted from it: W ← W − scale · B A. Needed to resume and to export. Empty for every
// other init.
struct ResidualInit {
  std::map<std::string, std::pair<at::Tensor, at::Tensor>> factors;  // module → A [rank, in], B [out, rank], fp32
};

// Sets the first values, like PEFT: A uniform in ±1/√in (Kaiming with a = √5) or normal with
// deviation 1/rank, B zero; `pissa` from the principal singular vectors (Meng et al., 2024),
// `olora` from the QR decomposition (Büyükakyüz, 2024); DoRA's magnitude is the norm of each base
// row. Random numbers depend on seed and module name alone. `loftq` (Li et al., 2023): scale · B A
// is the best approximation of the error of quantising the base, in one step, like PEFT's
// replace_lora_weights_loftq except for the scale, which PEFT leaves out. `original` has the base
// as its file has it. `eva` begins like the default, until start_from_inputs()
// (core/train/data_start.h). Call after attach_adapter(), before publish().
ResidualInit initialize_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                                const AdapterConfig& adapter, int64_t seed, const TensorFile* original = nullptr);

// Subtracts scale · B A of a ResidualInit from the base weights.
void subtract_residual(Model& model, const std::vector<AdapterSite>& sites, const ResidualInit& init);

}  // namespace forge
