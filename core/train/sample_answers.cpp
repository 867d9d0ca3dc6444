#include "core/train/sample_answers.h"

#include <c10/util/Exception.h>

#include "core/model/generate.h"
#include "core/run/samples.h"
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

}  // namespace

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

}  // namespace forge
