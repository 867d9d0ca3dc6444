#include "core/data/batch/order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "core/lib/base/error.h"
#include "core/lib/base/random.h"

namespace forge {
namespace {

constexpr int64_t kGroupWindow = 50;  // steps whose examples are sorted together; transformers' mega-batch
constexpr int64_t kPackWindow = 64;   // steps whose examples are packed together
constexpr double kFullRow = 0.98;     // a row with less of its budget waits for the next window

// Returns the examples of an epoch in reading order, before any grouping.
std::vector<int64_t> epoch_order(int64_t count, const Job& job, int64_t epoch) {
  if (job.data.shuffle) {
    const uint64_t stream = stream_of("data order/" + std::to_string(epoch));
    return permutation(static_cast<uint64_t>(job.seed), stream, count);
  }
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Returns the number of examples in a window. With a token budget, the mean length tells how many
// make a step.
int64_t window_examples(const std::vector<int64_t>& lengths, const Job& job) {
  const auto count = static_cast<int64_t>(lengths.size());
  int64_t per_step = 0;
  if (job.train.global_batch_tokens) {
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    per_step = std::max<int64_t>(1, *job.train.global_batch_tokens * count / std::max<int64_t>(1, tokens));
  } else {
    per_step = *job.train.global_batch_size;
  }
  // A small data set gets at least four windows, as in transformers, so that sorting leaves some
  // randomness.
  const int64_t steps = std::clamp<int64_t>(count / (per_step * 4), 1, kGroupWindow);
  return steps * per_step;
}

// Sorts each window by length, longest first, ties in the order they came. The first example is the
// longest of all, so that running out of memory happens in the first step.
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

// Appends the rows of a window in an order independent of their lengths, unlike best_fit's.
void append_shuffled(Parts& rows, Parts window, const Job& job, int64_t epoch) {
  const auto seed = static_cast<uint64_t>(job.seed);
  const std::string name = "step order/" + std::to_string(epoch) + "/" + std::to_string(rows.size());
  for (int64_t index : permutation(seed, stream_of(name), static_cast<int64_t>(window.size())))
    rows.push_back(std::move(window[static_cast<size_t>(index)]));
}

// Returns rows of at most `budget` tokens by best fit over windows of the order. Examples of a row
// that its window leaves part empty go into the next window, once, so that only the last window's
// gaps remain.
Parts packed_rows(const std::vector<int64_t>& order, const std::vector<int64_t>& lengths, int64_t budget,
                  int64_t window_tokens, const Job& job, int64_t epoch) {
  Parts rows;
  std::vector<int64_t> waiting;
  for (size_t next = 0; next < order.size();) {
    const std::set<int64_t> waited(waiting.begin(), waiting.end());
    std::vector<int64_t> window = std::move(waiting);
    waiting.clear();
    for (int64_t tokens = 0; next < order.size() && tokens < window_tokens; ++next) {
      window.push_back(order[next]);
      tokens += lengths[static_cast<size_t>(order[next])];
    }
    Parts full;
    for (auto& part : best_fit(window, lengths, budget)) {
      BatchFill fill;
      fill.add({part}, lengths, budget);
      const bool waits =
          next < order.size() && fill.share() < kFullRow &&
          std::none_of(part.begin(), part.end(), [&](int64_t i) { return waited.count(i) > 0; });
      if (waits)
        waiting.insert(waiting.end(), part.begin(), part.end());
      else
        full.push_back(std::move(part));
    }
    append_shuffled(rows, std::move(full), job, epoch);
  }
  return rows;
}

// Returns steps of a token budget: as many rows of data.max_length as it holds, each packed full.
// So a step's examples, in order, can be cut into micro-batches of a row or several that are as
// full as the step is. Before steps were made of rows, 16 rows of 2,048 tokens became 17.7
// micro-batches that were 89.8 % full.
Parts packed_steps(const std::vector<int64_t>& order, const std::vector<int64_t>& lengths, const Job& job,
                   int64_t epoch) {
  const int64_t budget = *job.train.global_batch_tokens;
  const auto per_step = static_cast<size_t>(std::max<int64_t>(1, budget / job.data.max_length));
  const int64_t row_tokens = budget / static_cast<int64_t>(per_step);
  const Parts rows = packed_rows(order, lengths, row_tokens, kPackWindow * budget, job, epoch);
  Parts steps;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % per_step == 0) steps.emplace_back();
    steps.back().insert(steps.back().end(), rows[i].begin(), rows[i].end());
  }
  return steps;
}

}  // namespace

Parts epoch_steps(const std::vector<int64_t>& lengths, const Job& job, int64_t epoch) {
  const auto& train = job.train;
  FORGE_CHECK(train.global_batch_tokens || train.global_batch_size, "the global batch is not planned yet");
  const int64_t size = train.global_batch_tokens ? *train.global_batch_tokens : *train.global_batch_size;
  FORGE_CHECK(size >= 1, "a global batch of " << size);
  std::vector<int64_t> order = epoch_order(static_cast<int64_t>(lengths.size()), job, epoch);
  if (job.data.group_by_length && !order.empty())
    group_by_length(order, lengths, window_examples(lengths, job));
  if (!train.global_batch_tokens) return fill_in_order(order, lengths, INT64_MAX, size);
  // An order that the job asks for is kept.
  const bool free = job.data.shuffle && !job.data.group_by_length;
  return free ? packed_steps(order, lengths, job, epoch) : fill_in_order(order, lengths, size);
}

Parts prompt_batches(const std::vector<int64_t>& lengths, const Job& job, int64_t epoch) {
  Job in_prompts = job;
  in_prompts.train.global_batch_size = job.rollout.prompts_per_step;
  in_prompts.train.global_batch_tokens.reset();
  return epoch_steps(lengths, in_prompts, epoch);
}

Parts micro_batches(const std::vector<int64_t>& step, const std::vector<int64_t>& lengths,
                    const Job& job, int64_t divisor) {
  const auto& [size, tokens] = std::tie(job.train.micro_batch_size, job.train.micro_batch_tokens);
  FORGE_CHECK(job.data.packing ? tokens && *tokens >= 1 : size && *size >= 1,
              "the micro-batch is not planned yet");
  const auto part = [&](const std::optional<int64_t>& most) {
    return most ? std::max<int64_t>(1, *most / divisor) : INT64_MAX;
  };
  return micro_batches(step, lengths, job.data.packing, {part(tokens), part(size)});
}

Parts micro_batches(const std::vector<int64_t>& step, const std::vector<int64_t>& lengths, bool packing, const MicroBatch& most) {
  return packing ? best_fit(step, lengths, most.tokens) : fill_in_order(step, lengths, most.tokens, most.examples);
}

}  // namespace forge
