#include "core/data/batch/batch.h"

#include <algorithm>

#include "core/lib/base/error.h"

namespace forge {

int64_t first_trained(const Example& example) {
  return std::find(example.supervised.begin(), example.supervised.end(), 1) - example.supervised.begin();
}

int64_t Batch::supervised_tokens() const {
  return std::count_if(loss_weights.begin(), loss_weights.end(), [](float weight) { return weight != 0; });
}

void Batch::append(const Example& example) {
  FORGE_CHECK(!example.ids.empty(), "example " << example.id << " has no tokens");
  FORGE_CHECK(example.ids.size() == example.supervised.size(),
              "example " << example.id << " has " << example.ids.size() << " ids and "
                         << example.supervised.size() << " mask values");
  FORGE_CHECK(token_ids.size() + source_ids.size() + example.ids.size() <= INT32_MAX, "a batch of more than 2^31 tokens");
  if (cu_seqlens.empty()) cu_seqlens.push_back(0);
  const auto source = static_cast<size_t>(std::count(example.supervised.begin(), example.supervised.end(), kSource));
  const size_t length = example.ids.size() - (source > 0);
  if (source > 0) append_source(example.ids.data(), source);
  token_ids.insert(token_ids.end(), example.ids.begin() + static_cast<int64_t>(source), example.ids.begin() + static_cast<int64_t>(length));
  for (size_t i = source; i < length; ++i) {
    const bool last = i + 1 == example.ids.size();
    positions.push_back(static_cast<int32_t>(i - source));
    targets.push_back(last ? -1 : example.ids[i + 1]);
    const uint8_t supervised = last ? 0 : example.supervised[i + 1];
    loss_weights.push_back(supervised == kLikelihoodOnly ? -1.0f : static_cast<float>(supervised));
  }
  cu_seqlens.push_back(static_cast<int32_t>(token_ids.size()));
  example_ids.push_back(example.id);
}

void Batch::append_source(const int32_t* ids, size_t count) {
  if (source_cu_seqlens.empty()) source_cu_seqlens.push_back(0);
  source_ids.insert(source_ids.end(), ids, ids + count);
  for (size_t i = 0; i < count; ++i) source_positions.push_back(static_cast<int32_t>(i));
  source_cu_seqlens.push_back(static_cast<int32_t>(source_ids.size()));
}

}  // namespace forge
