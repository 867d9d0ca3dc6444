#include "core/data/batch/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/lib/base/random.h"
#include "tests/test.h"

using namespace forge;

namespace {

using Steps = std::vector<std::vector<int64_t>>;

std::vector<int64_t> random_lengths(int64_t count, uint64_t seed) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(1 + static_cast<int64_t>(uniform(seed, 1, static_cast<uint64_t>(i)) * 300));
  return lengths;
}

// Returns lengths of which most are short and a few reach the limit: a log-normal with median 300,
// cut.
std::vector<int64_t> chat_lengths(int64_t count, int64_t limit) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const double length = 300 * std::exp(0.9 * normal(9, 2, static_cast<uint64_t>(i)));
    lengths.push_back(std::clamp(static_cast<int64_t>(length), int64_t{8}, limit));
  }
  return lengths;
}

std::vector<int64_t> flat(const Steps& steps) {
  std::vector<int64_t> all;
  for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

bool each_once(const Steps& steps, size_t count) {
  std::vector<int64_t> all = flat(steps), expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  std::sort(all.begin(), all.end());
  return all == expected;
}

int64_t tokens_of(const std::vector<int64_t>& part, const std::vector<int64_t>& lengths) {
  int64_t tokens = 0;
  for (int64_t index : part) tokens += lengths[static_cast<size_t>(index)];
  return tokens;
}

// Returns the fewest parts, by trying all assignments.
size_t optimal_parts(const std::vector<int64_t>& lengths, int64_t budget, size_t next = 0,
                     std::vector<int64_t> parts = {}) {
  if (next == lengths.size()) return parts.size();
  size_t best = lengths.size();
  for (size_t i = 0; i <= parts.size(); ++i) {
    std::vector<int64_t> tried = parts;
    if (i == parts.size()) tried.push_back(0);
    if ((tried[i] += lengths[next]) <= budget)
      best = std::min(best, optimal_parts(lengths, budget, next + 1, tried));
  }
  return best;
}

Job job_of(std::optional<int64_t> size, std::optional<int64_t> tokens = {}) {
  Job job;
  job.train.global_batch_size = size;
  job.train.global_batch_tokens = tokens;
  return job;
}

}  // namespace

TEST_CASE("every example comes once an epoch, whatever the settings") {
  for (int64_t count : {0, 1, 2, 7, 32, 33, 1000}) {
    const auto lengths = random_lengths(count, 5);
    for (bool shuffle : {false, true})
      for (bool group : {false, true})
        for (int64_t epoch : {0, 1, 9})
          for (Job job : {job_of(1), job_of(8), job_of(32), job_of({}, 100), job_of({}, 4096)}) {
            job.data.shuffle = shuffle;
            job.data.group_by_length = group;
            CAPTURE(count, shuffle, group, epoch);
            const Steps steps = epoch_steps(lengths, job, epoch);
            CHECK(each_once(steps, lengths.size()));
            CHECK(steps == epoch_steps(lengths, job, epoch));
            CHECK(std::none_of(steps.begin(), steps.end(), [](const auto& step) { return step.empty(); }));
          }
  }
}

TEST_CASE("steps have the global batch size, the last one what is left") {
  const auto lengths = random_lengths(70, 1);
  const Steps steps = epoch_steps(lengths, job_of(32), 0);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].size() == 32);
  CHECK(steps[1].size() == 32);
  CHECK(steps[2].size() == 6);
}

TEST_CASE("a token budget fills steps in order and lets an overlong example stand alone") {
  Job job = job_of({}, 10);
  job.data.shuffle = false;
  CHECK(epoch_steps({4, 6, 1, 10, 11, 3, 3, 3, 3}, job, 0) == Steps{{0, 1}, {2}, {3}, {4}, {5, 6, 7}, {8}});
  const auto lengths = random_lengths(500, 2);
  job.train.global_batch_tokens = 1000;
  job.data.shuffle = true;
  for (const auto& step : epoch_steps(lengths, job, 0))
    CHECK((tokens_of(step, lengths) <= 1000 || step.size() == 1));
}

TEST_CASE("steps of a token budget use at least 98 % of it on lengths like those of chats") {
  const auto lengths = chat_lengths(20000, 2048);
  for (int64_t budget : {2048, 4096, 8192, 32768})
    for (int64_t epoch : {0, 1}) {
      CAPTURE(budget, epoch);
      const Job job = job_of({}, budget);
      const Steps steps = epoch_steps(lengths, job, epoch);
      CHECK(each_once(steps, lengths.size()));
      BatchFill fill, in_order;
      fill.add(steps, lengths, budget);
      in_order.add(fill_in_order(flat(epoch_steps(lengths, job_of(1), epoch)), lengths, budget), lengths,
                   budget);
      CHECK(fill.share() >= 0.98);
      CHECK(fill.share() > in_order.share());
    }
}

TEST_CASE("micro-batches of rows use at least 98 % of their tokens when steps have a token budget") {
  for (int64_t limit : {512, 2048}) {
    const auto lengths = chat_lengths(20000, limit);
    for (int64_t rows : {1, 4, 16, 64})
      for (int64_t in_batch : {1, 2, 4}) {
        CAPTURE(limit, rows, in_batch);
        Job job = job_of({}, rows * limit);
        job.data.max_length = limit;
        job.train.micro_batch_tokens = std::min(rows, in_batch) * limit;
        Steps steps = epoch_steps(lengths, job, 0);
        CHECK(each_once(steps, lengths.size()));
        steps.pop_back();  // the last one is what is left
        BatchFill fill;
        for (const auto& step : steps)
          fill.add(micro_batches(step, lengths, job), lengths, *job.train.micro_batch_tokens);
        CHECK(fill.share() >= 0.98);
      }
  }
}

TEST_CASE("packed steps do not go from long examples to short ones") {
  const auto lengths = chat_lengths(20000, 2048);
  const Steps steps = epoch_steps(lengths, job_of({}, 8192), 0);
  auto longest = [&](size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; ++i)
      for (int64_t index : steps[i]) sum += static_cast<double>(lengths[static_cast<size_t>(index)] > 1500);
    return sum / static_cast<double>(end - begin);
  };
  const double first = longest(0, steps.size() / 2), second = longest(steps.size() / 2, steps.size());
  CHECK(first < 1.15 * second);
  CHECK(second < 1.15 * first);
}

TEST_CASE("examples of half the budget and a bit more go alone and none waits for ever") {
  const std::vector<int64_t> lengths(5000, 600);
  const Steps steps = epoch_steps(lengths, job_of({}, 1000), 0);
  CHECK(steps.size() == 5000);
  CHECK(each_once(steps, lengths.size()));
}

TEST_CASE("the order is a function of seed and epoch alone") {
  const auto lengths = random_lengths(200, 3);
  Job job = job_of(16);
  const auto first = flat(epoch_steps(lengths, job, 0));
  CHECK(first != flat(epoch_steps(lengths, job, 1)));
  CHECK(first ==
        flat(epoch_steps(std::vector<int64_t>(200, 9), job, 0)));  // lengths decide nothing without grouping
  Job batch = job_of(5);
  CHECK(first == flat(epoch_steps(lengths, batch, 0)));
  Job other = job;
  other.seed = 43;
  CHECK(first != flat(epoch_steps(lengths, other, 0)));
  job.data.shuffle = false;
  const auto plain = flat(epoch_steps(lengths, job, 0));
  CHECK(std::is_sorted(plain.begin(), plain.end()));
}

TEST_CASE("packing, micro-batch size and threads change no step") {
  const auto lengths = random_lengths(333, 4);
  Job job = job_of(32);
  const Steps steps = epoch_steps(lengths, job, 2);
  job.data.packing = !job.data.packing;
  job.train.micro_batch_size = 3;
  job.train.micro_batch_tokens = 512;
  job.train.threads = 7;
  CHECK(steps == epoch_steps(lengths, job, 2));
}

TEST_CASE("group_by_length puts like lengths together and the longest example first") {
  const auto lengths = random_lengths(3200, 6);
  Job job = job_of(16);
  auto spread = [&](const Steps& steps) {
    double sum = 0;
    for (const auto& step : steps) {
      int64_t low = INT64_MAX, high = 0;
      for (int64_t i : step) {
        low = std::min(low, lengths[static_cast<size_t>(i)]);
        high = std::max(high, lengths[static_cast<size_t>(i)]);
      }
      sum += static_cast<double>(high - low);
    }
    return sum / static_cast<double>(steps.size());
  };
  const double mixed = spread(epoch_steps(lengths, job, 0));
  job.data.group_by_length = true;
  const Steps grouped = epoch_steps(lengths, job, 0);
  CHECK(spread(grouped) < mixed / 10);
  CHECK(lengths[static_cast<size_t>(grouped[0][0])] == *std::max_element(lengths.begin(), lengths.end()));
  CHECK(grouped != epoch_steps(lengths, job, 1));
}

TEST_CASE("packed micro-batches are never more than in order, fuller, and lose nothing") {
  const auto lengths = random_lengths(100, 7);
  Job job = job_of(32);
  for (const auto& step : epoch_steps(lengths, job, 0)) {
    for (int64_t budget : {1, 200, 1000, 100000}) {
      job.data.packing = true;
      job.train.micro_batch_tokens = budget;
      const Steps parts = micro_batches(step, lengths, job);
      std::vector<int64_t> sorted = flat(parts), expected = step;
      std::sort(sorted.begin(), sorted.end());
      std::sort(expected.begin(), expected.end());
      CHECK(sorted == expected);
      for (const auto& part : parts) CHECK((tokens_of(part, lengths) <= budget || part.size() == 1));
      CHECK(parts.size() <= fill_in_order(step, lengths, budget).size());
    }
    job.data.packing = false;
    job.train.micro_batch_size = 5;
    const Steps parts = micro_batches(step, lengths, job);
    CHECK(flat(parts) == step);
    for (size_t i = 0; i + 1 < parts.size(); ++i) CHECK(parts[i].size() == 5);
    // A token budget without packing: in order, and no part had room for the first example of the
    // next.
    job.train.micro_batch_size = 32;
    job.train.micro_batch_tokens = 400;
    const Steps dynamic = micro_batches(step, lengths, job);
    CHECK(flat(dynamic) == step);
    for (size_t i = 0; i + 1 < dynamic.size(); ++i)
      CHECK(tokens_of(dynamic[i], lengths) + lengths[static_cast<size_t>(dynamic[i + 1][0])] > 400);
  }
}

TEST_CASE("best fit finds the packing that in-order filling misses") {
  const std::vector<int64_t> lengths{6, 6, 4, 4, 5, 5, 10, 12};
  CHECK(best_fit({0, 1, 2, 3, 4, 5}, lengths, 10) == Parts{{0, 2}, {1, 3}, {4, 5}});
  CHECK(fill_in_order({0, 1, 2, 3, 4, 5}, lengths, 10).size() == 4);
  CHECK(best_fit({7, 6, 0}, lengths, 10) == Parts{{7}, {6}, {0}});
  CHECK(best_fit({}, lengths, 10).empty());
  BatchFill fill;
  fill.add({{0, 2}, {7}, {5}}, lengths, 10);
  CHECK(fill.share() == Approx(25.0 / 30));
  // Compares with the best of all 203 partitions of six examples into sets.
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto six = random_lengths(6, seed);
    const auto parts = best_fit({0, 1, 2, 3, 4, 5}, six, 400);
    CHECK(parts.size() <= (11 * optimal_parts(six, 400) + 8) / 9);
  }
}

TEST_CASE("an order asked for before the plan is a broken promise") {
  CHECK_THROWS(epoch_steps({1, 2}, Job{}, 0));
  CHECK_THROWS(micro_batches({0}, {1}, job_of(4)));
}
