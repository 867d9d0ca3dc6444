#include "core/plan/stages/judge_plan.h"

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/parameters.h"
#include "core/plan/stages/step_choice.h"

namespace forge {

void require_judges(const Compute& plan, const Provider& provider) {
  for (const JudgeModel& judge : judges_of(plan.job)) {
    const std::vector<std::string> faults = provider.faults(judge_shape(plan, judge));
    if (!faults.empty())
      throw KeyError(ErrorKind::job, "provider", std::string(provider.name) + " cannot compute reward " + judge.reward + ": " + join(faults, "; "),
                     "write provider: reference");
  }
}

std::vector<MemoryLine> judge_fixed_lines(const Compute& plan, const JudgeModel& judge) {
  Job job = plan.job;
  job.model.quantization = Quantization::none;
  job.adapter = judge.config;
  job.optimizer.type = OptimizerType::sgd;
  std::vector<Parameter> parameters = run_parameters(judge.spec, judge.config, Quantization::none);
  if (judge.adapter.empty())
    for (Parameter& parameter : parameters) parameter.trainable = false;
  const Precision precision = *plan.job.train.precision;
  return named("reward " + judge.reward + ": ",
               fixed_lines(parameters, job, precision, precision, false),
               {"gradients", kOptimizerState});
}

ActivationShape judge_shape(const Compute& plan, const JudgeModel& judge) {
  const int64_t tokens = longest_judged(plan.job, judge.spec);
  ActivationShape shape;
  shape.spec = judge.spec;
  shape.adapter = judge.config;
  shape.residual = residual_of(plan.job);
  record_modules(shape, judge.sites);
  shape.precision = shape.storage = *plan.job.train.precision;
  shape.cuda = plan.device.cuda;
  shape.capability = plan.device.gpu.compute_capability;
  shape.multiprocessors = multiprocessors_of(plan.device);
  shape.micro_batch_tokens = shape.longest_sequence = tokens;
  shape.supervised_tokens = tokens / 2 + 1;  // a text has two tokens at least
  shape.threads = plan.device.cuda ? 0 : *plan.job.train.threads;
  shape.training = false;
  shape.folded_residuals = folds_residuals(plan);
  return shape;
}

}  // namespace forge
