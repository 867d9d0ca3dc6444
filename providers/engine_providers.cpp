#include "providers/engine_providers.h"

#include <array>

#include "core/lib/base/error.h"
#include "providers/fused/fused.h"

namespace forge {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<StepProvider> (*step)(const Model&, TrainableSet&, const StepOptions&);
  std::unique_ptr<Decoder> (*decoder)(const Model&, TrainableSet&, const StepOptions&);
};
const std::array kProviders{Row{"fused", &fused_provider, &fused_decoder},
                                Row{"reference", &aten_provider, &aten_decoder}};

const Row& row_named(const std::string& name) {
  for (const Row& row : kProviders)
    if (name == row.name) return row;
  FORGE_CHECK(false, "the plan names the provider " << name << ", which this engine does not have");
}

}  // namespace

std::unique_ptr<StepProvider> make_step_provider(const std::string& name, const Model& model,
                                                 TrainableSet& trainables, const StepOptions& options) {
  return row_named(name).step(model, trainables, options);
}

std::unique_ptr<Decoder> make_decoder(const std::string& name, const Model& model, TrainableSet& trainables,
                                      const StepOptions& options) {
  return row_named(name).decoder(model, trainables, options);
}

}  // namespace forge
