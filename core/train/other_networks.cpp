#include "core/train/other_networks.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/data/batch/packing.h"
#include "core/plan/stages/value_plan.h"
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

LoadedNetwork::LoadedNetwork(LoadedModel loaded, const std::string& provider, Job job)
    : loaded_(std::move(loaded)),
      job_(job_of(loaded_, std::move(job))),
      provider_(make_step_provider(provider, loaded_.model, *loaded_.trainables,
                                   step_options(loaded_.model.spec, job_, loaded_.sites, Checkpointing::none))),
      network_(loaded_.model, *loaded_.trainables, *provider_, job_) {}

std::vector<double> text_scores(Network& network, const Model& model, const std::vector<std::vector<int32_t>>& texts,
                                int64_t batch_tokens, const StopFlag& stop) {
  std::vector<int64_t> lengths;
  for (const std::vector<int32_t>& ids : texts) lengths.push_back(static_cast<int64_t>(ids.size()));
  std::vector<double> scores(texts.size());
  const Parts parts = fill_in_order(numbers_below(std::ssize(texts)), lengths, batch_tokens);
  for_each_part(World(), parts, stop, [&](const std::vector<int64_t>& part) {
    Batch batch;
    for (const int64_t i : part) {
      const std::vector<int32_t>& ids = texts[static_cast<size_t>(i)];
      batch.append({i, ids, std::vector<uint8_t>(ids.size())});
    }
    const std::vector<double> values = host_doubles(network.rows(to_tensors(batch, model.spec, model.type, model.device)).logp);
    for (size_t k = 0; k < part.size(); ++k) scores[static_cast<size_t>(part[k])] = values.at(k);
  });
  return scores;
}

Judges::Judge::Judge(const Session& session, const JudgeModel& files)
    : loaded(open_model_with_adapter({.path = files.model}, files.adapter, *session.job.train.precision, session.device)),
      tokens(longest_judged(session.job, files.spec)) {
  job.adapter = loaded.adapter, job.train.residual = session.job.train.residual;
  StepOptions options = step_options(loaded.model.spec, job, loaded.sites, Checkpointing::none);
  options.evaluation = {tokens, tokens / 2 + 1};
  options.arena = session.arena;
  provider = make_step_provider(session.plan.provider_name(), loaded.model, *loaded.trainables, options);
  network = std::make_unique<Network>(loaded.model, *loaded.trainables, *provider, job);
}

Judges::Judges(const Session& session) {
  for (const JudgeModel& files : judges_of(session.job)) judges_.emplace(files.reward, std::make_unique<Judge>(session, files));
}

std::vector<double> Judges::scores(const std::string& reward, const std::vector<std::vector<int32_t>>& texts, const StopFlag& stop) {
  Judge& judge = *judges_.at(reward);
  return text_scores(*judge.network, judge.loaded.model, texts, judge.tokens, stop);
}

ValueNetwork::ValueNetwork(const Session& session, Model base)
    : rate_ratio_(session.job.objective.as<PpoConfig>().value.learning_rate_ratio),
      job_(session.job),
      model_(std::move(base)),
      trainables_(value_model(session.plan.model, session.job).layout, model_.type, model_.device, session.job.train.master_weights) {
  c10::NoGradGuard no_grad;
  const ValueModel value = value_model(session.plan.model, session.job);
  job_.adapter = value.adapter;
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
