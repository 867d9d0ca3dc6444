#include "core/data/mismatch.h"

#include <algorithm>
#include <string>

#include "core/lib/base/hash.h"

namespace forge {

std::vector<Mismatch> mismatches(const DataSet& data, std::vector<int64_t> examples) {
  std::sort(examples.begin(), examples.end());
  std::vector<std::string> prompts;
  for (const int64_t index : examples) {
    const Example example = data.example(index);
    prompts.push_back(Hasher().add(example.ids.data(), static_cast<size_t>(first_trained(example)) * sizeof(int32_t)).hex());
  }
  std::vector<Mismatch> result;
  const size_t count = examples.size();
  for (size_t i = 0; i < count; ++i)
    for (size_t back = 1; back < count; ++back) {
      const size_t other = (i + count - back) % count;
      if (prompts[other] == prompts[i]) continue;
      result.push_back({examples[i], examples[other]});
      break;
    }
  return result;
}

Example mismatched_example(const DataSet& data, const Mismatch& mismatch, int64_t max_length) {
  const Example before = data.example(mismatch.prompt), behind = data.example(mismatch.answer);
  const int64_t begin = first_trained(before), from = first_trained(behind);
  const int64_t answer = static_cast<int64_t>(behind.ids.size()) - from;
  const int64_t front = std::clamp<int64_t>(begin + answer - max_length, 0, begin - 1);
  const int64_t kept = std::min(answer, max_length - (begin - front));
  Example example{mismatch.prompt, {}, {}};
  example.ids.assign(before.ids.begin() + front, before.ids.begin() + begin);
  example.supervised.assign(static_cast<size_t>(begin - front), 0);
  example.ids.insert(example.ids.end(), behind.ids.begin() + from, behind.ids.begin() + from + kept);
  example.supervised.insert(example.supervised.end(), behind.supervised.begin() + from, behind.supervised.begin() + from + kept);
  return example;
}

}  // namespace forge
