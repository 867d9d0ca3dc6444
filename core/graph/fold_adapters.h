#pragma once
// Adapters that run on in the products of their frozen weights, for devices whose products are a library's (Hu et al., LoRA, 2021):
//
//   s   = scale x Aᵀ               into spare columns behind x
//   y   = [x, s] [W, B]ᵀ           one product, which writes y once
//   d s = scale d y B              into spare columns behind d y; and d B += d yᵀ s
//   d x = [d y, d s] [W; A]        one product
//   d A += d sᵀ x
//
// W, A and B of modules that share x lie in one buffer of N + R rows and K + R columns (N = Σ out, K = in, R = Σ rank): W, to its
// right the B of each module beside its rows and zeros elsewhere, below it their A one behind the other.
#include "core/graph/graph.h"

namespace forge {

// Elements that spare columns are rounded up to: a row begins where a sector of memory does.
constexpr int64_t kSpareColumns = 16;

// Of the op's modules.
int64_t ranks_of(const Graph& graph, const Op& op);
int64_t outs_of(const Graph& graph, const Op& op);
int64_t spare_columns(int64_t ranks);

// Whether fold_adapters() folds a linear: it has adapters without dropout, nothing of it is trained whole or rescaled, all or none of
// its modules have a bias, and nothing lies behind its input.
bool folds(const Graph& graph, const Op& linear);

// Rewrites a whole list. Graph::producers no longer hold after it.
void fold_adapters(Graph& graph);

}  // namespace forge
