#include "providers/step_options.h"

#include "core/lib/base/error.h"

namespace forge {

StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites, StepChoice choice) {
  return {.shape = {spec, module_training(spec, job.adapter, sites, job.model.quantization), std::move(choice), residual_of(job)},
          .neftune_alpha = job.train.neftune_alpha};
}

StepOptions step_options(const ModelSpec& spec, const Job& job, const std::vector<AdapterSite>& sites,
                         Checkpointing policy) {
  const TrainedLayout trained = trained_layout(run_parameters(spec, job.adapter, job.model.quantization), job.optimizer);
  StepOptions options =
      step_options(spec, job, sites, StepChoice{.trained = trained_size(trained, job.train.precision.value_or(Precision::fp32))});
  options.shape.recompute = recomputed_by(options.shape, policy);
  return options;
}

StepOptions provider_options(const std::string& provider, StepOptions options) {
  options.aten = provider == "reference";
  FORGE_CHECK(options.aten || provider == "fused",
              "the plan names the provider " << provider << ", which this engine does not have");
  return options;
}

}  // namespace forge
