#include "core/run/samples.h"

#include <algorithm>

#include "core/lib/base/file.h"
#include "core/lib/io/members.h"
#include "core/run/model_text.h"

namespace forge {
namespace {

constexpr int64_t kLongestPrompt = 512;  // tokens: longer samples tell a reader nothing more
constexpr int64_t kLargestFile = 16 << 20;

std::string path_of(const std::string& folder) { return folder + "/samples.json"; }

// Returns the number of tokens before the first trained one, or that an encoder reads; for text
// without a prompt, the number of its opening tokens.
int64_t prompt_length(const Example& example) {
  constexpr int64_t kOpening = 16;
  if (const auto source = std::count(example.supervised.begin(), example.supervised.end(), kSource); source > 0) return source;
  const int64_t first = first_trained(example);
  const auto size = static_cast<int64_t>(example.ids.size());
  return first > 1 ? std::min(first, size) : std::min(kOpening, size / 2);
}

}  // namespace

std::vector<std::vector<int32_t>> sample_prompts(const DataSet& data, int64_t count, int64_t longest) {
  std::vector<std::vector<int32_t>> prompts;
  const int64_t most = std::min(kLongestPrompt, longest - 1);
  for (int64_t i = 0; i < data.size() && static_cast<int64_t>(prompts.size()) < count; ++i) {
    const Example example = data.example(i);
    const int64_t length = prompt_length(example);
    if (length < 1 || length > most) continue;
    prompts.emplace_back(example.ids.begin(), example.ids.begin() + length);
  }
  return prompts;
}

void write_samples(const std::string& folder, const std::vector<Sample>& samples) {
  Json list = Json::array();
  for (const Sample& sample : samples) list.push_back({{"prompt", sample.prompt}, {"before", sample.before}});
  write_file_durably(path_of(folder), dump_json(list) + "\n");
}

std::vector<Sample> read_samples(const std::string& folder, int64_t vocab_size) {
  if (!file_exists(path_of(folder))) return {};
  std::vector<Sample> samples;
  try {
    const Json list = parse_json(read_file(path_of(folder), kLargestFile, ErrorKind::environment), path_of(folder),
                                 ErrorKind::environment);
    const Range ids = between(0, static_cast<double>(vocab_size - 1));
    for (const Json& item : list) {
      MemberReader member{item};
      Sample& sample = samples.emplace_back();
      member("prompt", sample.prompt, "", ids);
      member("before", sample.before, "", ids);
      if (sample.prompt.empty()) return {};
    }
    return samples;
  } catch (const Error&) {  // a report without samples is better than none
  } catch (const MemberFault&) {
  }
  return {};
}

Json samples_json(const std::vector<Sample>& samples, const std::vector<std::vector<int32_t>>& after,
                  const Plan& plan) {
  Json list = Json::array();
  if (samples.empty()) return list;
  const Tokenizer tokenizer = open_model_text(plan.job.model.path, template_choice(plan.job)).tokenizer;
  for (size_t i = 0; i < samples.size(); ++i)
    list.push_back({{"prompt", tokenizer.decode(samples[i].prompt)},
                    {"before", tokenizer.decode(samples[i].before)},
                    {"after", tokenizer.decode(after.at(i))}});
  return list;
}

std::vector<int32_t> sample_stop_ids(const Plan& plan) {
  return stop_ids(open_model_text(plan.job.model.path, template_choice(plan.job)), plan.model.eos_token_ids);
}

}  // namespace forge
