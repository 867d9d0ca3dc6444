#pragma once
// The value model, which predicts rewards beside a policy. It is the same base with an adapter and
// a head of one number of its own; if every weight is trained, it is a copy of all. The plan counts
// it and the engine builds it from this description.
#include <vector>

#include "core/model/families/adapter_sites.h"
#include "core/model/families/parameters.h"
#include "core/model/families/trained_layout.h"

namespace forge {

struct ValueModel {
  ModelSpec spec;         // with a score head
  AdapterConfig adapter;  // a fresh one that trains the head whole
  std::vector<Parameter> parameters;
  std::vector<AdapterSite> sites;
  TrainedLayout layout;
};

// Returns the value model of a run of `job` on a model of `spec`.
ValueModel value_model(const ModelSpec& spec, const Job& job,
                       Experts experts = Experts::one_by_one);

}  // namespace forge
