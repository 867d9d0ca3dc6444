#include "core/plan/stages/compute.h"

#include <cmath>

#include "core/job/names.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/plan/stages/step_choice.h"

namespace forge {
namespace {

ValueOrigin from_profile(const Profile& profile, const std::string& reason) {
  return {OriginKind::profile, "profile " + profile.name, reason};
}

Settled<std::string> device_of(const PlanInput& input) {
  if (input.job.hardware.device != "auto") return {input.device_name()};
  return {input.device_name(), derived(!input.device.cuda         ? input.device_warning.empty() ? "there is no GPU" : "no GPU here can be used"
                                       : !input.device.gpu.probed ? "asked for by name"
                                                                  : "the GPU with the most free memory")};
}

Settled<std::string> profile_of(const PlanInput& input) {
  if (input.job.hardware.profile != "auto") return {input.profile.name};
  return {input.profile.name, derived(input.profile.rule)};
}

// Returns the precision: on a CPU by what was measured there, if anything was. A profile speaks of
// a kind of processor, and rates of this one, so rates come first; the job's own word stands above
// both.
Settled<Precision> precision_of(const PlanInput& input) {
  if (input.job.train.precision) return {*input.job.train.precision};
  const Choice<Precision>& choice = input.profile.precision;
  const auto gain = input.rates && !input.device.cuda ? input.rates->bf16_gain() : std::nullopt;
  if (!gain) return {choice.value, from_profile(input.profile, choice.reason)};
  return {*gain > 1 ? Precision::bf16 : Precision::fp32, derived("measured here on " + input.rates->date + ": products in bf16 take " +
                                                                 format_number(std::round(100 / *gain) / 100) + " times the time of fp32")};
}

Precision storage_of(const PlanInput& input, Precision precision) {
  // Trained weights are read in the compute type.
  if (input.job.adapter.type == AdapterType::none) return precision;
  // A profile's storage type only applies with its own precision.
  return precision == input.profile.precision.value ? input.profile.storage.value : precision;
}

// Returns the type of the residual stream beside fp16, which ends at 65,504 and has 11 bits: sums
// over many layers pass both, while what a layer adds fits. bf16 has fp32's range and no such
// stream.
Settled<Residual> stream_of(const PlanInput& input, Precision precision) {
  const Auto<Residual>& asked = input.job.train.residual;
  if (precision == Precision::fp16) {
    if (asked) return {*asked};
    return {input.profile.residual.value, from_profile(input.profile, input.profile.residual.reason)};
  }
  if (asked == Residual::fp32)
    throw KeyError(ErrorKind::job, "train.residual",
                   "fp32 is for runs in fp16; this one computes in " + name_of(precision) + ", whose range is fp32's", "leave it out");
  return {Residual::compute};
}

Settled<std::string> provider_of(const Compute& plan, const std::vector<Provider>& providers) {
  ActivationShape shape = model_shape(plan);
  shape.capability = plan.device.gpu.compute_capability, shape.residual = residual_of(plan.job);
  record_modules(shape, adapter_sites(plan.model, plan.job.adapter, Experts::in_rows),
                 Experts::in_rows);
  if (plan.job.provider != "auto") {
    const Provider& asked = provider_named(providers, plan.job.provider);
    const std::vector<std::string> faults = asked.faults(shape);
    if (!faults.empty())
      throw KeyError(ErrorKind::job, "provider",
                     plan.job.provider + " cannot do this job: " + join(faults, "; "), "set provider: auto");
    return {asked.name};
  }
  std::string passed_over;
  for (const Provider& provider : providers) {
    const std::vector<std::string> faults = provider.faults(shape);
    if (faults.empty()) return {provider.name, derived(provider.summary + passed_over)};
    passed_over += std::string("; not ") + provider.name + ": " + join(faults, ", ");
  }
  throw KeyError(ErrorKind::job, "provider", "none can do this job" + passed_over);
}

}  // namespace

Compute plan_compute(const PlanInput& input) {
  Compute plan{input};
  plan.profile = input.profile.name;
  plan.profile_rule = input.profile.rule;
  plan.engine = input.profile.engine.value;
  plan.settle("hardware.device", plan.job.hardware.device, device_of(input));
  plan.settle("hardware.profile", plan.job.hardware.profile, profile_of(input));
  plan.settle("train.precision", plan.job.train.precision, precision_of(input));
  const Precision precision = *plan.job.train.precision;
  plan.storage = storage_of(input, precision);
  plan.loss_scaling = precision == Precision::fp16 ? LossScaling::dynamic : LossScaling::none;
  plan.settle("train.residual", plan.job.train.residual, stream_of(input, precision));
  if (!plan.job.train.threads)
    plan.settle("train.threads", plan.job.train.threads,
                Settled<int64_t>{plan.device.cpu.cores, derived("the processors this process may use")});
  plan.settle("provider", plan.job.provider, provider_of(plan, input.providers));
  plan.provider = plan.job.provider;
  plan.step = chosen_step(plan);
  return plan;
}

ActivationShape model_shape(const Compute& plan) {
  ActivationShape shape;
  shape.spec = plan.model, shape.adapter = plan.job.adapter;
  shape.precision = *plan.job.train.precision, shape.storage = plan.storage;
  shape.cuda = plan.device.cuda, shape.quantization = plan.job.model.quantization;
  return shape;
}

const Provider& provider_named(const std::vector<Provider>& providers, const std::string& name) {
  std::vector<std::string> known;
  for (const Provider& provider : providers) {
    if (provider.name == name) return provider;
    known.push_back(provider.name);
  }
  throw KeyError(ErrorKind::job, "provider",
                 "unknown provider \"" + name + "\"" + did_you_mean(name, known) + "; forge has auto, " +
                     join(known, ", "));
}

}  // namespace forge
