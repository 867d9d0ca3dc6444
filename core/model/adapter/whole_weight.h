#pragma once
// The embedding's and the head's matrix where an adapter changes them. A step reads them whole, by
// tokens and in the head's tiles. They are therefore computed from the base and the trained parts
// after every update, and the gradient of the whole matrix is passed on to the parts:
//
//   head       W + s B A       d B = s d W Aᵀ, d A = s Bᵀ d W
//   embedding  W + s (B A)ᵀ    d A = s (d W B)ᵀ, d B = s d Wᵀ Aᵀ
//   rows       W with the rows of some tokens replaced
//
// The embedding's factors are LoRA (Hu et al., 2021) in the form of PEFT's Embedding; rows are
// PEFT's trainable_token_indices. This costs a copy of the matrix in the compute type and its
// gradient in fp32, and no pass over the tokens.
//
// It costs what modules_to_save costs, without the optimizer's state, and no op, provider or
// decoder knows of it. Dropout before such factors would need a pass of its own and is refused.
#include <vector>

#include "core/model/families/adapter_sites.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Replaces the model's own matrices by those of `sites`. `tied`: rows of the embedding are the
// head's too. Their values are set by TrainableSet::publish().
void attach_vocabulary(Model& model, TrainableSet& trainables, const std::vector<VocabularySite>& sites, bool tied);

// Sets the first values, like PEFT: rows are the base's; for the head A is uniform in ±1/√hidden
// and B zero; for the embedding A is zero and B normal. Call after attach_vocabulary().
void initialize_vocabulary(TrainableSet& trainables, const std::vector<VocabularySite>& sites, int64_t seed);

}  // namespace forge
