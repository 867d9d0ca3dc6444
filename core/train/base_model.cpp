#include "core/train/base_model.h"

#include <algorithm>

#include "providers/engine_providers.h"

namespace forge {
namespace {

StepOptions base_options(const Session& session) {
  StepOptions options{.shape = {session.plan.model, base_training(session.plan.model, session.job.adapter, session.job.model.quantization), {}, residual_of(session.job)}};
  const BatchRoom &training = session.plan.training_batch, &evaluation = session.plan.evaluation_batch;
  options.evaluation = {std::max(training.tokens, evaluation.tokens), std::max(training.targets, evaluation.targets)};
  options.arena = session.arena;
  return options;
}

}  // namespace

BaseModel::BaseModel(const Session& session)
    : model_(*session.base),
      nothing_(trained_layout({}), model_.type, model_.device, true),
      provider_(make_step_provider(session.plan.provider_name(), model_, nothing_, base_options(session))),
      network_(model_, nothing_, *provider_, session.job) {}

}  // namespace forge
