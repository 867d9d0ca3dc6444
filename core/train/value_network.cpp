#include "core/train/value_network.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/plan/stages/value_plan.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

Job job_with(const Job& job, const AdapterConfig& adapter) {
  Job own = job;
  own.adapter = adapter;
  return own;
}

}  // namespace

ValueNetwork::ValueNetwork(const Session& session, Model base)
    : rate_ratio_(session.job.objective.as<PpoConfig>().value.learning_rate_ratio),
      job_(job_with(session.job, value_model(session.plan.model, session.job).adapter)),
      model_(std::move(base)),
      trainables_(value_model(session.plan.model, session.job).layout, model_.type, model_.device, session.job.train.master_weights) {
  c10::NoGradGuard no_grad;
  const ValueModel value = value_model(session.plan.model, session.job);
  model_.spec = value.spec;
  model_.head = at::zeros({1, value.spec.hidden_size}, at::TensorOptions().dtype(model_.type).device(model_.device));
  adopt_trained_weights(model_, trainables_, /*tied=*/false);
  if (!value.sites.empty()) {
    attach_adapter(model_, trainables_, value.sites, value.adapter);
    initialize_adapter(model_, trainables_, value.sites, value.adapter, session.job.seed);
    trainables_.publish();
  }
  optimizer_ = std::make_unique<Optimizer>(job_.optimizer, job_.adapter.lora_plus_ratio, trainables_);
  StepOptions options = step_options(value.spec, job_, value.sites, value_plan(session.plan).step);
  options.training = session.plan.training_batch;
  options.evaluation = session.plan.evaluation_batch;
  options.arena = session.arena;
  provider_ = make_step_provider(session.plan.provider_name(), model_, trainables_, options);
  network_ = std::make_unique<Network>(model_, trainables_, *provider_, job_);
}

std::vector<double> ValueNetwork::values(const BatchTensors& batch) { return host_doubles(network_->rows(batch).logp); }

void ValueNetwork::forward_backward(const BatchTensors& batch, double loss_scale, const ValueCotangents& ask) {
  network_->rows_forward_backward(batch, {.loss_scale = loss_scale, .from_rows = [&](const TokenOutputs& rows) {
                               return RowCotangents{.logp = ask(host_doubles(rows.logp)), .entropy = {}};
                             }});
}

const GradientVerdict& ValueNetwork::measure(double unscale, double max_norm) {
  return network_->measure(*optimizer_, unscale, max_norm);
}

void ValueNetwork::update(double learning_rate, int64_t updates) {
  network_->update(*optimizer_, rate_ratio_ * learning_rate, updates);
}

}  // namespace forge
