#include "core/train/token_steps.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "core/data/batch/order.h"
#include "core/model/generate.h"
#include "core/run/samples.h"
#include "core/train/reference.h"
#include "providers/engine_providers.h"

namespace forge {

namespace {

// Answers the prompts together, as far as a micro-batch of training has room for them. None is
// longer than the longest example.
std::vector<std::vector<int32_t>> answers(const Session& s, const std::vector<std::vector<int32_t>>& prompts, const StopFlag& stop) {
  const auto decoder = make_decoder(s.plan.provider_name(), s.model, *s.trainables,
                                    step_options(s.plan.model, s.job, s.sites, Checkpointing::none));
  const SamplingConfig greedy{.max_new_tokens = kSampleTokens, .stop_ids = sample_stop_ids(s.plan)};
  std::vector<std::vector<int32_t>> ids(prompts.size());
  const auto room = [&](size_t i) { return s.plan.train.longest - static_cast<int64_t>(prompts[i].size()); };
  const auto token = [&](int64_t prompt, int32_t id, float) {
    const auto i = static_cast<size_t>(prompt);
    ids[i].push_back(id);
    return stop.requested == 0 && static_cast<int64_t>(ids[i].size()) < room(i);
  };
  generate(*decoder, prompts, greedy, {.prompt_tokens = s.plan.training_batch.tokens},
           {.token = token, .end = [](int64_t, const GenerationEnd&) {}});
  return ids;
}

// Writes samples.json of the run folder. Called before the first step.
void answer_samples(const Session& s, const DataSet& data, const std::string& run_folder, const StopFlag& stop) {
  if (s.job.eval.samples == 0) return;
  std::vector<Sample> samples;
  try {
    const auto prompts = sample_prompts(data, s.job.eval.samples, s.plan.train.longest);
    const auto before = answers(s, prompts, stop);
    for (size_t i = 0; i < prompts.size(); ++i) samples.push_back({prompts[i], before[i]});
  } catch (const c10::OutOfMemoryError&) {
    return;
  }
  write_samples(run_folder, samples);
}

// Returns the report's list, empty if there is nothing to compare with. Called after the last step.
Json answer_samples_again(const Session& s, const std::string& run_folder, const StopFlag& stop) {
  const std::vector<Sample> samples = read_samples(run_folder, s.plan.model.vocab_size);
  if (samples.empty() || s.job.eval.samples == 0) return Json::array();
  std::vector<std::vector<int32_t>> prompts, after;
  for (const Sample& sample : samples) prompts.push_back(sample.prompt);
  try {
    after = answers(s, prompts, stop);
  } catch (const c10::OutOfMemoryError&) {
    return Json::array();
  }
  return samples_json(samples, after, s.plan);
}

class TokenSteps : public StepSource {
 public:
  TokenSteps(Session& session, const RunData& data, const std::string& run_folder, const StopFlag& stop)
      : session_(session), data_(data), run_folder_(run_folder), stop_(stop) {}

  void begin() override {
    answer_samples(session_, data_.has_eval ? data_.eval : data_.train, run_folder_, stop_);
  }

  StepStats step(TrainState& state, int64_t divisor) override {
    return train_step(session_, data_.train, cut(state, divisor), state, stop_);
  }

  bool smallest(const TrainState& state, int64_t divisor) override {
    return cut(state, divisor).size() == steps_[state.step].size();
  }

  Evaluation evaluate(const TrainState&, int64_t divisor) override {
    const double divergence = divergence_of(session_, data_.eval, numbers_below(data_.eval.size()), stop_);
    const EvalStats stats =
        forge::evaluate(session_.world, *session_.network, session_.model, data_.eval, evaluation_batch(divisor), stop_,
                        session_.job.objective, session_.reference.get(), divergence);
    Evaluation made{.loss = stats.loss, .of_training = true};
    made.event = {{"tokens", stats.tokens}, {"supervised_tokens", stats.supervised_tokens}, {"seconds", stats.seconds}};
    for (const auto& [name, mean] : means_of(stats.metrics)) made.event["eval_" + name] = mean;
    return made;
  }

  // Batches shorter than the longest example do not exist.
  bool smallest_evaluation(int64_t divisor) const override {
    const DataSummary& eval = session_.plan.eval;
    return evaluation_batch(divisor) <= std::max(eval.longest, eval.pairs.longest);
  }

  Json samples(const TrainState&) override { return answer_samples_again(session_, run_folder_, stop_); }

 private:
  Parts cut(const TrainState& state, int64_t divisor) {
    return micro_batches(steps_[state.step], data_.train.atom_lengths(), session_.job, divisor);
  }
  int64_t evaluation_batch(int64_t divisor) const {
    return std::max<int64_t>(1, evaluation_tokens(session_.plan) / divisor);
  }

  Session& session_;
  const RunData& data_;
  const std::string run_folder_;
  const StopFlag& stop_;
  Epochs steps_{
      "steps", [this](int64_t epoch) { return epoch_steps(data_.train.atom_lengths(), session_.job, epoch); }};
};

}  // namespace

std::unique_ptr<StepSource> token_steps(Session& session, const RunData& data, const std::string& run_folder, const StopFlag& stop) {
  return std::make_unique<TokenSteps>(session, data, run_folder, stop);
}

}  // namespace forge
