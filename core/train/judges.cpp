#include "core/train/judges.h"

#include <numeric>

#include "core/data/batch/packing.h"
#include "providers/engine_providers.h"

namespace forge {

std::vector<double> text_scores(Network& network, const Model& model, const std::vector<std::vector<int32_t>>& texts,
                                int64_t batch_tokens, const StopFlag& stop) {
  std::vector<int64_t> lengths, order(texts.size());
  for (const std::vector<int32_t>& ids : texts) lengths.push_back(static_cast<int64_t>(ids.size()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> scores(texts.size());
  for_each_part(World(), fill_in_order(order, lengths, batch_tokens), stop, [&](const std::vector<int64_t>& part) {
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

}  // namespace forge
