#include "core/train/token_steps.h"

#include <algorithm>

#include "core/data/batch/order.h"
#include "core/train/divergence.h"
#include "core/train/reference.h"
#include "core/train/sample_answers.h"

namespace forge {

Parts cut_step(const Job& job, const DataSet& data, const std::vector<int64_t>& examples, int64_t divisor) {
  Job smaller = job;
  const auto divide = [&](std::optional<int64_t>& size) {
    if (size) size = std::max<int64_t>(1, *size / divisor);
  };
  divide(smaller.train.micro_batch_size), divide(smaller.train.micro_batch_tokens);
  return micro_batches(examples, data.atom_lengths(), smaller);
}

namespace {

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
    return cut(state, divisor).size() == examples_of(state.step).size();
  }

  Evaluation evaluate(const TrainState&, int64_t divisor) override {
    const double divergence = divergence_of(session_, data_.eval, all_examples(data_.eval), stop_);
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
  // Returns the examples of a step. Epochs differ in their number of steps, so each is laid out
  // once in turn.
  const std::vector<int64_t>& examples_of(int64_t step) {
    while (step >= epoch_begin_ + static_cast<int64_t>(epoch_steps_.size())) {
      epoch_begin_ += static_cast<int64_t>(epoch_steps_.size());
      epoch_steps_ = epoch_steps(data_.train.atom_lengths(), session_.job, ++epoch_);
      FORGE_CHECK(!epoch_steps_.empty(), "an epoch without steps");
    }
    return epoch_steps_[static_cast<size_t>(step - epoch_begin_)];
  }
  Parts cut(const TrainState& state, int64_t divisor) {
    return cut_step(session_.job, data_.train, examples_of(state.step), divisor);
  }
  int64_t evaluation_batch(int64_t divisor) const {
    return std::max<int64_t>(1, evaluation_tokens(session_.plan) / divisor);
  }

  Session& session_;
  const RunData& data_;
  const std::string run_folder_;
  const StopFlag& stop_;
  int64_t epoch_ = -1, epoch_begin_ = 0;  // the epoch at hand and its first step
  std::vector<std::vector<int64_t>> epoch_steps_;
};

}  // namespace

std::unique_ptr<StepSource> token_steps(Session& session, const RunData& data, const std::string& run_folder, const StopFlag& stop) {
  return std::make_unique<TokenSteps>(session, data, run_folder, stop);
}

}  // namespace forge
