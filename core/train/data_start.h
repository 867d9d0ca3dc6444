#pragma once
// Initializes adapters from the data (init: eva). The first A of each adapted layer is computed
// from what the layer reads of the training data (Paischer et al., "Explained variance adaptation",
// 2024), like PEFT's initialize_lora_eva_weights with rho 1. Ranks stay as they were planned.
//
// With rho above 1 PEFT also moves ranks between layers. A plan knows memory, parameters and disk
// only when ranks are known, so that would be a pass of its own that writes an adapter to start
// from. Only A is stored: a run that is killed before its first checkpoint does the same again, to
// the same bits.
#include <cstdint>
#include <functional>
#include <vector>

#include "core/data/batch/packing.h"
#include "core/data/dataset.h"
#include "core/train/session.h"

namespace forge {

struct DataStart {
  int64_t batches = 0;  // micro-batches that were looked at
  int64_t layers = 0, settled = 0;
};

// Looks at the run's own micro-batches in their order, over and over, until no direction of any
// layer turns any more (adapter.eva.tau). B stays zero. `cut`: the micro-batches of a step. Throws
// Error(data) where none has as many tokens to look at as the rank of an adapter. The same data,
// job and seed give the same bits.
DataStart start_from_inputs(Session& session, const DataSet& data, const std::function<Parts(const std::vector<int64_t>&)>& cut);

}  // namespace forge
