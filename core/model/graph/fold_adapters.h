#pragma once
// Folds adapters into the products of their frozen weights, for devices whose products are a
// library's (Hu et al., LoRA, 2021):
//
//   s   = scale x Aᵀ               into spare columns after x
//   y   = [x, s] [W, B]ᵀ           one product, which writes y once
//   d s = scale d y B              into spare columns after d y; and d B += d yᵀ s
//   d x = [d y, d s] [W; A]        one product
//   d A += d sᵀ x
//
// W, A and B of modules that share x are in one buffer of N + R rows and K + R columns (N = Σ out,
// K = in, R = Σ rank). To the right of W are the B of each module beside its rows, and zeros
// elsewhere. Below W are the A of the modules, one after the other.
//
// The loader leaves room beside and below W, and A and B are copied there once a step. The scale is
// in s and d s, which are rounded anyway, and not in B. If x is not kept, s is copied out of the
// columns after it, which is less than keeping x. Dropout, DoRA and a base in blocks exclude
// folding. It is unmeasured whether a depth of K + R costs a GPU more than the passes that it
// saves.
//
// In bf16 an adapter beside its product begins late: y is rounded before s Bᵀ is added, and what is
// below half of its last bit is lost, as in PEFT. Three steps of AdamW on SmolLM2 lower the
// held-out loss from 4.55 to 4.43 with adapters in the product and to 4.50 with adapters beside it,
// whether the base is bf16 or fp8; in fp32 beside it to 4.44.
#include "core/graph/graph.h"

namespace forge {

// Multiple that spare columns are rounded up to, so that a row begins where a sector of memory
// does.
constexpr int64_t kSpareColumns = 16;

int64_t spare_columns(int64_t ranks);

// True if fold_adapters() folds a linear: it has adapters without dropout, nothing of it is trained
// whole or rescaled, all or none of its modules have a bias, and its input has a buffer to itself.
bool folds(const Graph& graph, const Op& linear);

// Rewrites a whole list. Graph::producers no longer hold after it.
void fold_adapters(Graph& graph);

}  // namespace forge
