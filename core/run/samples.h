#pragma once
// Samples: prompts of a run's own data, answered before and after training. Readers look at this
// part of a report first. The engine gives the answers. This file chooses the prompts, keeps the
// answers between start and end, and turns them into text.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/plan/plan.h"

namespace forge {

constexpr int64_t kSampleTokens = 32;  // of an answer, at most

struct Sample {
  std::vector<int32_t> prompt, before;  // token ids
};

// Returns the beginnings of the first examples: the tokens before their first trained token, or a
// few tokens of an example that is trained from its start. No prompt with its answer is longer than
// the longest example, so that answering needs no memory that training does not.
std::vector<std::vector<int32_t>> sample_prompts(const DataSet& data, int64_t count, int64_t longest);

// Writes and reads samples.json of a run folder. A file that is missing, broken or of another
// vocabulary holds no samples.
void write_samples(const std::string& folder, const std::vector<Sample>& samples);
std::vector<Sample> read_samples(const std::string& folder, int64_t vocab_size);

// Returns the report's list: {prompt, before, after} in words of the run's tokenizer. `after` has
// an answer for each sample.
Json samples_json(const std::vector<Sample>& samples, const std::vector<std::vector<int32_t>>& after,
                  const Plan& plan);
// Returns the tokens that end an answer.
std::vector<int32_t> sample_stop_ids(const Plan& plan);

}  // namespace forge
