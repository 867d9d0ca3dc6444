#include "core/data/batch/batch.h"

#include <algorithm>

#include "core/data/batch/text_groups.h"
#include "core/lib/base/random.h"
#include "tests/test.h"

using namespace forge;

TEST_CASE("a batch lays examples end to end and shifts targets inside each") {
  Batch batch;
  batch.append({7, {10, 11, 12}, {0, 0, 1}});
  batch.append({3, {20}, {0}});
  batch.append({5, {30, 31}, {1, 1}});  // a mask on the first token has nothing before it to predict from
  CHECK(batch.token_ids == std::vector<int32_t>{10, 11, 12, 20, 30, 31});
  CHECK(batch.positions == std::vector<int32_t>{0, 1, 2, 0, 0, 1});
  CHECK(batch.cu_seqlens == std::vector<int32_t>{0, 3, 4, 6});
  CHECK(batch.targets == std::vector<int32_t>{11, 12, -1, -1, 31, -1});
  CHECK(batch.loss_weights == std::vector<float>{0, 1, 0, 0, 1, 0});
  CHECK(batch.example_ids == std::vector<int64_t>{7, 3, 5});
  CHECK(batch.tokens() == 6);
  CHECK(batch.sequences() == 3);
  CHECK(batch.supervised_tokens() == 2);
}

TEST_CASE("a batch for an encoder-decoder has sources and answers apart, an answer without its last token") {
  Batch batch;
  batch.append({4, {10, 11, 12, 0, 20, 21}, {kSource, kSource, kSource, 0, 1, 1}});
  batch.append({2, {13, 0, 22}, {kSource, 0, 1}});
  CHECK(batch.source_ids == std::vector<int32_t>{10, 11, 12, 13});
  CHECK(batch.source_positions == std::vector<int32_t>{0, 1, 2, 0});
  CHECK(batch.source_cu_seqlens == std::vector<int32_t>{0, 3, 4});
  CHECK(batch.token_ids == std::vector<int32_t>{0, 20, 0});
  CHECK(batch.positions == std::vector<int32_t>{0, 1, 0});
  CHECK(batch.cu_seqlens == std::vector<int32_t>{0, 2, 3});
  CHECK(batch.targets == std::vector<int32_t>{20, 21, 22});
  CHECK(batch.loss_weights == std::vector<float>{1, 1, 1});
  CHECK(batch.supervised_tokens() == 3);
  CHECK(batch.all_tokens() == 9);  // those of the examples
}

TEST_CASE("an empty batch has no tokens and no longest sequence") {
  const Batch batch;
  CHECK(batch.tokens() == 0);
  CHECK(batch.supervised_tokens() == 0);
}

TEST_CASE("texts are padded together where neither their sources nor their answers lose much by it") {
  const auto texts = [](const std::vector<TextLengths>& lengths) {
    std::vector<std::vector<size_t>> groups;
    for (const TextGroup& group : text_groups(lengths)) groups.push_back(group.texts);
    return groups;
  };
  using Groups = std::vector<std::vector<size_t>>;
  CHECK(texts({}).empty());
  CHECK(texts({{40, 8}}) == Groups{{0}});
  CHECK(texts({{40, 8}, {20, 8}, {30, 8}}) == Groups{{1, 2, 0}});
  CHECK(texts({{40, 8}, {500, 8}, {44, 8}}) == Groups{{0, 2}, {1}});  // not 500 tokens for 40
  CHECK(texts({{40, 8}, {40, 90}, {40, 9}}) == Groups{{0, 2}, {1}});  // and not 90 for 8
  CHECK(texts({{10, 1}, {20, 1}}) == Groups{{0, 1}});                 // 40 slots for 30 tokens
  CHECK(texts({{10, 1}, {21, 1}}) == Groups{{0, 1}});
  CHECK(texts({{10, 1}, {31, 1}}) == Groups{{0}, {1}});               // 62 for 41
}

TEST_CASE("groups of texts hold each text once, within their padding") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<TextLengths> lengths;
    for (uint64_t i = 0; i < 40; ++i)
      lengths.push_back({1 + static_cast<int64_t>(200 * uniform(seed, 0, i)), 1 + static_cast<int64_t>(30 * uniform(seed, 1, i))});
    std::vector<int> seen(lengths.size(), 0);
    for (const TextGroup& group : text_groups(lengths)) {
      TextLengths tokens, longest;
      for (const size_t text : group.texts) {
        ++seen[text];
        tokens.source += lengths[text].source, tokens.answer += lengths[text].answer;
        longest.source = std::max(longest.source, lengths[text].source), longest.answer = std::max(longest.answer, lengths[text].answer);
      }
      const auto count = static_cast<int64_t>(group.texts.size());
      CHECK(longest.source == group.longest.source);
      CHECK(longest.answer == group.longest.answer);
      CHECK(static_cast<double>(count * longest.source) <= kMostPadding * static_cast<double>(tokens.source));
      CHECK(static_cast<double>(count * longest.answer) <= kMostPadding * static_cast<double>(tokens.answer));
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}
