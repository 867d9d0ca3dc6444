#include "providers/engine_providers.h"

#include "core/lib/base/error.h"
#include "providers/fused/fused.h"

namespace forge {
namespace {

// Returns the options with what the provider of that name sets. Both are one program.
StepOptions options_of(const std::string& provider, StepOptions options) {
  options.aten = provider == "reference";
  FORGE_CHECK(options.aten || provider == "fused", "the plan names the provider " << provider << ", which this engine does not have");
  return options;
}

}  // namespace

std::unique_ptr<StepProvider> make_step_provider(const std::string& name, const Model& model,
                                                 TrainableSet& trainables, const StepOptions& options) {
  return fused_provider(model, trainables, options_of(name, options));
}

std::unique_ptr<Decoder> make_decoder(const std::string& name, const Model& model, TrainableSet& trainables,
                                      const StepOptions& options) {
  return fused_decoder(model, trainables, options_of(name, options));
}

}  // namespace forge
