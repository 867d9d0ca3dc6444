#pragma once
// What of every layer is adapted or trained, for providers that rehearse a step (rehearsal.h).
#include <vector>

#include "core/plan/memory.h"

namespace forge {

struct RehearsedLinear {
  int64_t in = 0, out = 0;
  int64_t rank = 0;      // 0: no adapter
  bool trained = false;  // the weight itself
};

struct RehearsedLayer {
  RehearsedLinear q, k, v, o, gate, up, down;
  bool input_norm = false, post_norm = false;  // trained
};

struct LayerTable {
  std::vector<RehearsedLayer> layers;
  int64_t lowest =
      0;  // the lowest layer that keeps anything for backward; as Network's lowest_trained_layer_
  bool embedding = false, final_norm = false, head = false;  // trained
};
LayerTable layer_table(const ActivationShape& shape);

}  // namespace forge
