#pragma once
// The network that foresees rewards beside a policy: the same base with an adapter and a head of one number of its own; where
// every weight is trained, a copy of all. The plan counts it and the engine builds it from this.
#include <vector>

#include "core/families/adapter_sites.h"
#include "core/families/parameters.h"
#include "core/families/trained_layout.h"

namespace forge {

struct ValueModel {
  ModelSpec spec;         // with a score head
  AdapterConfig adapter;  // a fresh one that trains the head whole
  std::vector<Parameter> parameters;
  std::vector<AdapterSite> sites;
  TrainedLayout layout;
};

// Of a run of `job` on a model of `spec`.
ValueModel value_model(const ModelSpec& spec, const Job& job);

}  // namespace forge
