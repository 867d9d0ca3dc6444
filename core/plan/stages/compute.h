#pragma once
// The compute of a run: its device, number types, threads and provider.
#include "core/model/families/step.h"
#include "core/plan/stages/attention.h"
#include "core/plan/stages/plan_input.h"

namespace forge {

// Settled in the job: hardware.device and .profile, train.precision, .residual and .threads,
// provider.
struct Compute : Setup {
  std::string profile, profile_rule;
  std::string engine;                   // cpu | cuda13 | none: the engine that runs it
  std::string provider;                 // fused | reference
  Precision storage = Precision::fp32;  // of frozen weights that are not quantised
  LossScaling loss_scaling = LossScaling::none;
  StepChoice step;  // the lists that are run, as the engine takes them (core/plan/stages/step_choice.h)

  const std::string& provider_name() const { return provider; }
};

// Settles the compute. Throws KeyError(job) for residual fp32 with a precision other than fp16, for
// a name that none of the providers has, and for a provider that cannot do the job.
Compute plan_compute(const PlanInput& input);

// Returns the shape of the plan's model on its device, without sizes and lists.
ActivationShape model_shape(const Compute& plan);

// Returns the provider of that name. Throws KeyError(job) if there is none.
const Provider& provider_named(const std::vector<Provider>& providers, const std::string& name);

}  // namespace forge
