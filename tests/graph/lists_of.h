#pragma once
// Returns steps of tiny models as lists, for tests of passes over lists.
#include <algorithm>
#include <string>
#include <vector>

#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/model_spec.h"
#include "core/model/families/step.h"
#include "core/graph/op_record.h"
#include "tests/fixtures/variants.h"

namespace forge {

inline ModelSpec tiny() { return read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama"); }

inline ModelSpec variant(const std::string& name) { return model_spec_from_config(variant_config(name), name); }

inline AdapterConfig lora(std::vector<std::string> targets = {"all-linear"}) {
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.rank = 4;
  adapter.target_modules = std::move(targets);
  return adapter;
}

inline Graph step_of(const ModelSpec& spec, const AdapterConfig& adapter, Checkpointing policy, bool folded = false, bool kept_norms = false,
              Residual residual = Residual::compute, bool offloaded = false) {
  const auto sites =
      adapter.type == AdapterType::none ? std::vector<AdapterSite>{} : adapter_sites(spec, adapter);
  StepShape shape{spec, module_training(spec, adapter, sites), {}, residual};
  shape.recompute = recomputed_by(shape, policy);
  shape.folded_adapters = shape.folded_residuals = folded, shape.kept_norms = kept_norms;
  shape.offloaded = offloaded;
  return training_step(shape);
}
inline Graph step(const AdapterConfig& adapter, Checkpointing policy, bool folded = false) {
  return step_of(tiny(), adapter, policy, folded);
}

inline size_t ops_of(const Graph& list, OpKind kind) {
  return static_cast<size_t>(std::count_if(list.ops.begin(), list.ops.end(), [&](const Op& op) { return op.kind == kind; }));
}

inline int64_t no_workspace(const Graph&, const Op&, const StepSizes&) { return 0; }

inline const StepSizes kSizes{.tokens = 100, .targets = 60};

}  // namespace forge
