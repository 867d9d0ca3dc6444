#include "core/data/order.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"

namespace forge {
namespace {

constexpr int64_t kGroupWindow = 50;  // steps whose examples are sorted together; transformers' mega-batch

// The examples of an epoch in the order of reading, before any grouping.
std::vector<int64_t> epoch_order(int64_t count, const Job& job, int64_t epoch) {
  if (job.data.shuffle) {
    const uint64_t stream = stream_of("data order/" + std::to_string(epoch));
    return permutation(static_cast<uint64_t>(job.seed), stream, count);
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// How many examples make one window. With a token budget the mean length says how many make a step.
int64_t window_examples(const std::vector<int64_t>& lengths, const Job& job) {
  const auto count = static_cast<int64_t>(lengths.size());
  int64_t per_step = 0;
  if (job.train.global_batch_tokens) {
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    per_step = std::max<int64_t>(1, *job.train.global_batch_tokens * count / std::max<int64_t>(1, tokens));
  } else {
    per_step = *job.train.global_batch_size;
  }
  // As transformers: a small data set gets at least four windows, so that sorting leaves some randomness.
  const int64_t steps = std::clamp<int64_t>(count / (per_step * 4), 1, kGroupWindow);
  return steps * per_step;
}

// Longest first inside each window, ties in the order they came. The window that holds the longest example of
// all comes first with it, so that running out of memory happens in the first step.
void group_by_length(std::vector<int64_t>& order, const std::vector<int64_t>& lengths, int64_t window) {
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(window)) {
    const auto end = std::min(order.size(), begin + static_cast<size_t>(window));
    std::stable_sort(order.begin() + static_cast<int64_t>(begin), order.begin() + static_cast<int64_t>(end),
                     [&](int64_t a, int64_t b) {
                       return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)];
                     });
  }
  auto longest = std::max_element(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
  if (longest != order.end()) std::iter_swap(order.begin(), longest);
}

// Cuts `order` in order: a part is closed when the next example would exceed the budget. A part holds at
// least one.
std::vector<std::vector<int64_t>> fill(const std::vector<int64_t>& order, const std::vector<int64_t>& lengths,
                                       int64_t token_budget) {
  std::vector<std::vector<int64_t>> parts;
  int64_t tokens = 0;
  for (int64_t index : order) {
    const int64_t length = lengths.at(static_cast<size_t>(index));
    if (parts.empty() || tokens + length > token_budget) {
      parts.emplace_back();
      tokens = 0;
    }
    parts.back().push_back(index);
    tokens += length;
  }
  return parts;
}

std::vector<std::vector<int64_t>> chunks(const std::vector<int64_t>& order, int64_t size) {
  std::vector<std::vector<int64_t>> parts;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(size)) {
    const auto end = std::min(order.size(), begin + static_cast<size_t>(size));
    parts.emplace_back(order.begin() + static_cast<int64_t>(begin),
                       order.begin() + static_cast<int64_t>(end));
  }
  return parts;
}

}  // namespace

std::vector<std::vector<int64_t>> epoch_steps(const std::vector<int64_t>& lengths, const Job& job,
                                              int64_t epoch) {
  const auto& train = job.train;
  FORGE_CHECK(train.global_batch_tokens || train.global_batch_size, "the global batch is not planned yet");
  const int64_t size = train.global_batch_tokens ? *train.global_batch_tokens : *train.global_batch_size;
  FORGE_CHECK(size >= 1, "a global batch of " << size);
  std::vector<int64_t> order = epoch_order(static_cast<int64_t>(lengths.size()), job, epoch);
  if (job.data.group_by_length && !order.empty())
    group_by_length(order, lengths, window_examples(lengths, job));
  return train.global_batch_tokens ? fill(order, lengths, size) : chunks(order, size);
}

std::vector<std::vector<int64_t>> micro_batches(const std::vector<int64_t>& step,
                                                const std::vector<int64_t>& lengths, const Job& job) {
  const Auto<int64_t>& size = job.data.packing ? job.train.micro_batch_tokens : job.train.micro_batch_size;
  FORGE_CHECK(size && *size >= 1, "the micro-batch is not planned yet");
  return job.data.packing ? fill(step, lengths, *size) : chunks(step, *size);
}

}  // namespace forge
