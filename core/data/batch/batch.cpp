#include "core/data/batch/batch.h"

#include <algorithm>

#include "core/base/error.h"

namespace forge {

int64_t Batch::supervised_tokens() const {
  return std::count_if(loss_weights.begin(), loss_weights.end(), [](float weight) { return weight != 0; });
}

int64_t Batch::max_sequence_length() const {
  int64_t longest = 0;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s)
    longest = std::max<int64_t>(longest, cu_seqlens[s + 1] - cu_seqlens[s]);
  return longest;
}

void Batch::append(const Example& example) {
  FORGE_CHECK(!example.ids.empty(), "example " << example.id << " has no tokens");
  FORGE_CHECK(example.ids.size() == example.supervised.size(),
              "example " << example.id << " has " << example.ids.size() << " ids and "
                         << example.supervised.size() << " mask values");
  const size_t length = example.ids.size();
  FORGE_CHECK(token_ids.size() + length <= INT32_MAX, "a batch of more than 2^31 tokens");
  if (cu_seqlens.empty()) cu_seqlens.push_back(0);
  token_ids.insert(token_ids.end(), example.ids.begin(), example.ids.end());
  for (size_t i = 0; i < length; ++i) {
    const bool last = i + 1 == length;
    positions.push_back(static_cast<int32_t>(i));
    targets.push_back(last ? -1 : example.ids[i + 1]);
    const uint8_t supervised = last ? 0 : example.supervised[i + 1];
    loss_weights.push_back(supervised == kLikelihoodOnly ? -1.0f : static_cast<float>(supervised));
  }
  cu_seqlens.push_back(static_cast<int32_t>(token_ids.size()));
  example_ids.push_back(example.id);
}

}  // namespace forge
