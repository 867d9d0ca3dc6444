#include "core/data/batch/batch.h"

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
  CHECK(batch.max_sequence_length() == 3);
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
  CHECK(batch.max_sequence_length() == 0);
  CHECK(batch.supervised_tokens() == 0);
}
