#pragma once
// The embedding's and the head's matrix where an adapter changes them. A step reads them whole, by tokens and in the head's tiles, so
// they are computed of the base and the trained parts after every update, and the gradient of the whole is handed on to the parts:
//
//   head       W + s B A       d B = s d W Aᵀ, d A = s Bᵀ d W
//   embedding  W + s (B A)ᵀ    d A = s (d W B)ᵀ, d B = s d Wᵀ Aᵀ          (LoRA, Hu et al., 2021, as PEFT's Embedding has it)
//   rows       W with the rows of some tokens replaced                    (PEFT's trainable_token_indices)
//
// It costs a copy of the matrix in the compute type and its gradient in fp32, and no pass over the tokens.
#include <vector>

#include "core/families/adapter_sites.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Puts the matrices of `sites` in the place of the model's own; `tied`: rows of the embedding are the head's too. Their values come
// with TrainableSet::publish().
void attach_vocabulary(Model& model, TrainableSet& trainables, const std::vector<VocabularySite>& sites, bool tied);

// First values as PEFT has them: the rows are the base's; of the head A is uniform in ±1/√hidden and B zero; of the embedding A is
// zero and B normal. Call after attach_vocabulary.
void initialize_vocabulary(TrainableSet& trainables, const std::vector<VocabularySite>& sites, int64_t seed);

}  // namespace forge
