#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <set>
#include <thread>

#include "kernels/attention/attention.h"
#include "kernels/dropout/dropout.h"
#include "kernels/linear/linear.h"
#include "core/lib/base/random.h"
#include "tests/test.h"

using namespace forge;

namespace {
double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }
}  // namespace

TEST_CASE("parallel_for runs on more than one thread") {
  at::set_num_threads(2);
  std::set<std::thread::id> ids;
  std::mutex mutex;
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  CHECK(ids.size() == 2);
}

TEST_CASE("packed sequences attend to themselves alone") {
  at::manual_seed(3);
  at::Tensor q = at::randn({12, 6, 8}), k = at::randn({12, 2, 8}), v = at::randn({12, 2, 8});
  at::Tensor packed = cross_attention(q, k, v, {0, 5, 6, 12}, {0, 5, 6, 12}, {.scale = 0.3});
  // Compares with the formula, query by query.
  for (int64_t t = 0; t < 12; ++t) {
    int64_t begin = t < 5 ? 0 : t < 6 ? 5 : 6;
    for (int64_t head = 0; head < 6; ++head) {
      at::Tensor keys = k.narrow(0, begin, t + 1 - begin).select(1, head / 3), values = v.narrow(0, begin, t + 1 - begin).select(1, head / 3);
      at::Tensor weights = at::softmax(at::mv(keys, q[t][head]) * 0.3, 0);
      REQUIRE(distance(packed[t].narrow(0, head * 8, 8), at::mv(values.t(), weights)) < 1e-5);
    }
  }
}

TEST_CASE("texts that are padded together attend as each by itself, and so do their gradients") {
  at::manual_seed(6);
  // Sources of 3, 7, 2 and 6 tokens, answers of 2, 4, 5 and 1, in two groups of two: texts 0 and 2,
  // and texts 3 and 1.
  const std::vector<int32_t> cu_source{0, 3, 10, 12, 18}, cu_answer{0, 2, 6, 11, 12};
  const auto side = [](const std::vector<int32_t>& cu, std::vector<int64_t> longest) {
    std::vector<PaddedTexts> groups;
    const size_t texts[] = {0, 2, 3, 1};
    for (size_t group = 0; group < 2; ++group) {
      std::vector<int64_t> row_of_slot, slots, rows, padding;
      for (const size_t text : {texts[2 * group], texts[2 * group + 1]})
        for (int64_t t = 0; t < longest[group]; ++t) {
          const bool there = cu[text] + t < cu[text + 1];
          if (there) slots.push_back(static_cast<int64_t>(row_of_slot.size())), rows.push_back(cu[text] + t);
          row_of_slot.push_back(there ? cu[text] + t : 0);
          padding.push_back(!there);
        }
      groups.push_back({.texts = 2, .longest = longest[group], .row_of_slot = at::tensor(row_of_slot), .slots = at::tensor(slots),
                        .rows = at::tensor(rows), .padding = at::tensor(padding).to(at::kBool)});
    }
    return groups;
  };
  const std::vector<PaddedTexts> sources = side(cu_source, {3, 7}), answers = side(cu_answer, {5, 4});
  const at::Tensor table = at::randn({8, 4}).requires_grad_(true);
  struct Case {
    const std::vector<int32_t>&queries, &keys;
    const std::vector<PaddedTexts>&padded_queries, &padded_keys;
    AttentionRule rule;
  };
  for (const Case& c : {Case{cu_source, cu_source, sources, sources, {.scale = 0.3, .causal = false}},
                        Case{cu_answer, cu_answer, answers, answers, {.scale = 0.3}},
                        Case{cu_answer, cu_source, answers, sources, {.scale = 0.3, .causal = false}},
                        Case{cu_source, cu_source, sources, sources, {.causal = false, .position_table = table, .position_distance = 16}},
                        Case{cu_answer, cu_answer, answers, answers, {.position_table = table, .position_distance = 16}}}) {
    const at::Tensor q = at::randn({c.queries.back(), 4, 8}).requires_grad_(true), k = at::randn({c.keys.back(), 2, 8}).requires_grad_(true),
                     v = at::randn({c.keys.back(), 2, 8}).requires_grad_(true);
    const at::Tensor alone = cross_attention(q, k, v, c.queries, c.keys, c.rule), slope = at::randn_like(alone);
    std::vector<at::Tensor> leaves{q, k, v};
    if (c.rule.position_table.defined()) leaves.push_back(table);
    const auto wanted = torch::autograd::grad({alone}, leaves, {slope});
    // In groups, and each text as a group by itself.
    for (const TextSides& texts : {TextSides{c.padded_queries, c.padded_keys}, TextSides{single_texts(c.queries), single_texts(c.keys)}}) {
      c10::NoGradGuard no_grad;
      const Attended made{at::empty_like(q), at::empty({q.size(0), q.size(1)})};
      attend(q, k, v, texts, c.rule, made);
      REQUIRE(distance(alone, made.out.flatten(1)) < 1e-6);
      std::vector<at::Tensor> found{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
      found.push_back(attend_backward(slope.view_as(q), q.detach(), k.detach(), v.detach(), made, texts, c.rule, found[0], found[1], found[2]));
      for (size_t i = 0; i < leaves.size(); ++i) {
        INFO("gradient " << i);
        CHECK(distance(wanted[i], found[i]) < 1e-5);
      }
    }
  }
}

TEST_CASE("cached attention equals packed attention token by token") {
  at::manual_seed(4);
  at::Tensor q = at::randn({9, 4, 8}), k = at::randn({9, 2, 8}), v = at::randn({9, 2, 8});
  at::Tensor whole = cross_attention(q, k, v, {0, 9}, {0, 9}, {.scale = 0.35});
  CHECK(distance(cached_attention(q.narrow(0, 4, 5), k, v, {.scale = 0.35}), whole.narrow(0, 4, 5)) < 1e-5);
  CHECK(distance(cached_attention(q.narrow(0, 8, 1), k, v, {.scale = 0.35}), whole.narrow(0, 8, 1)) < 1e-5);
}

TEST_CASE("cached attention sees through the same window and under the same cap as packed attention") {
  at::manual_seed(5);
  at::Tensor q = at::randn({12, 4, 8}), k = at::randn({12, 2, 8}), v = at::randn({12, 2, 8});
  for (const AttentionRule& rule : {AttentionRule{.scale = 0.35, .window = 4}, AttentionRule{.scale = 0.9, .softcap = 2},
                                   AttentionRule{.scale = 0.9, .softcap = 2, .window = 3}}) {
    at::Tensor whole = cross_attention(q, k, v, {0, 12}, {0, 12}, rule);
    for (int64_t past = 0; past < 12; ++past)
      for (int64_t fresh = 1; past + fresh <= 12; ++fresh)
        REQUIRE(distance(cached_attention(q.narrow(0, past, fresh), k.narrow(0, 0, past + fresh),
                                          v.narrow(0, 0, past + fresh), rule),
                         whole.narrow(0, past, fresh)) < 1e-5);
    CHECK(distance(whole, cross_attention(q, k, v, {0, 12}, {0, 12}, {.scale = rule.scale})) > 1e-2);
  }
}

TEST_CASE("a dropout mask follows its example and position, not its place in the batch") {
  RowKeys both{.seed = 9, .step = 3, .example = {7, 7, 2, 2}, .position = {0, 1, 0, 1}};
  RowKeys second{.seed = 9, .step = 3, .example = {2, 2}, .position = {0, 1}};
  at::Tensor ones = at::ones({4, 50});
  at::Tensor whole = counter_dropout(ones, 0.4, stream_of("m"), both);
  CHECK(at::equal(whole.narrow(0, 2, 2), counter_dropout(ones.narrow(0, 0, 2), 0.4, stream_of("m"), second)));
  CHECK_FALSE(at::equal(whole.narrow(0, 0, 2), whole.narrow(0, 2, 2)));
  second.step = 4;
  CHECK_FALSE(at::equal(whole.narrow(0, 2, 2), counter_dropout(ones.narrow(0, 0, 2), 0.4, stream_of("m"), second)));
  RowKeys many{.seed = 1, .step = 0};
  for (int i = 0; i < 400; ++i) {
    many.example.push_back(i);
    many.position.push_back(0);
  }
  double kept = counter_dropout(at::ones({400, 64}), 0.25, 5, many).ne(0).to(at::kDouble).mean().item<double>();
  CHECK(kept == Approx(0.75).margin(0.01));
}

TEST_CASE("DoRA with its first magnitude changes nothing, and scales rows afterwards") {
  at::manual_seed(5);
  LinearSpec spec{.weight = at::randn({6, 4}), .bias = at::randn({6}), .lora_a = at::randn({2, 4}), .lora_b = at::zeros({6, 2}), .scale = 2};
  at::Tensor x = at::randn({3, 4}), base = at::linear(x, spec.weight, spec.bias);
  spec.magnitude = at::linalg_vector_norm(spec.weight, 2, {1});
  CHECK(distance(linear(spec, x, nullptr), base) < 1e-5);
  spec.lora_b = at::randn({6, 2});
  const at::Tensor sum = spec.weight + spec.scale * at::mm(spec.lora_b, spec.lora_a);
  const at::Tensor merged = sum * (spec.magnitude / at::linalg_vector_norm(sum, 2, {1})).unsqueeze(1);
  CHECK(distance(linear(spec, x, nullptr), at::linear(x, merged, spec.bias)) < 1e-5);
}
