#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_turns.h"

#include "tests/test.h"

using namespace forge;
using Catch::Contains;

TEST_CASE("an attention kernel is chosen by GPU, type and size") {
  using enum AttentionKernel;
  struct Row {
    int64_t capability;
    Element type;
    int64_t head_dim;
    bool backward;
    AttentionKernel kernel;
    const char* reason;
  };
  const Row rows[] = {{90, Element::bf16, 128, false, flash, "16-bit"},
                      {90, Element::bf16, 128, true, flash, "16-bit"},
                      {80, Element::f16, 64, true, flash, "16-bit"},
                      {120, Element::bf16, 256, true, flash, "16-bit"},
                      {90, Element::bf16, 24, true, flash, "16-bit"},
                      {90, Element::bf16, 21, true, efficient, "multiple of 8"},
                      {90, Element::f32, 64, true, efficient, "no fp32"},
                      {90, Element::bf16, 264, false, efficient, "at most 256"},
                      {90, Element::bf16, 257, false, efficient, "at most 256"},
                      {86, Element::bf16, 192, true, flash, "16-bit"},
                      {86, Element::bf16, 193, true, efficient, "multiple of 8"},
                      {86, Element::bf16, 200, true, efficient, "193 to 224"},
                      {89, Element::f16, 224, false, efficient, "193 to 224"},
                      {120, Element::bf16, 224, true, efficient, "193 to 224"},
                      {89, Element::f16, 256, true, flash, "16-bit"},
                      {90, Element::bf16, 224, true, flash, "16-bit"},
                      {75, Element::f16, 64, true, efficient, "8.0"},
                      {61, Element::f32, 64, true, efficient, "no fp32"},
                      {60, Element::f16, 128, true, efficient, "8.0"},
                      {75, Element::bf16, 64, true, none, "bf16 needs"},
                      {37, Element::f32, 64, true, none, "5.0"}};
  for (const Row& row : rows) {
    INFO("sm_" << row.capability << " head_dim " << row.head_dim);
    AttentionChoice choice =
        choose_attention({row.capability, row.type, row.head_dim, 32, 4, 8192}, row.backward);
    CHECK(choice.kernel == row.kernel);
    CHECK_THAT(choice.reason, Contains(row.reason));
  }
}

TEST_CASE("a window, a cap or sinks are our own kernels'") {
  AttentionProblem p{.capability = 90, .type = Element::bf16, .head_dim = 128, .heads = 32, .sequences = 1, .tokens = 800};
  p.longest = 500, p.window = 500;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::flash);
  p.window = 499;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::own);
  CHECK_THAT(choose_attention(p, true).reason, Contains("window"));
  p.window = 0, p.softcap = 50;
  CHECK(choose_attention(p, false).kernel == AttentionKernel::own);
  CHECK_THAT(choose_attention(p, false).reason, Contains("cap"));
  p.softcap = 0, p.sinks = true;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::own);
  CHECK_THAT(choose_attention(p, true).reason, Contains("sinks"));
  p.capability = 61, p.head_dim = 256;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::own);
  p.head_dim = 257;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::none);
  CHECK_THAT(choose_attention(p, true).reason, Contains("at most 256"));
}

TEST_CASE("flash attention's backward is left where its 32-bit indices end") {
  // (tokens + 128 · sequences) · heads · padded head_dim reaches 2³¹ at 524,288 tokens of 32 heads
  // of 128.
  AttentionProblem p{.capability = 90, .type = Element::bf16, .head_dim = 128, .heads = 32, .sequences = 1};
  p.tokens = (int64_t{1} << 31) / (32 * 128) - 128 - 1;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::flash);
  ++p.tokens;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::efficient);
  CHECK_THAT(choose_attention(p, true).reason, Contains("32-bit"));
  CHECK(choose_attention(p, false).kernel == AttentionKernel::flash);
  --p.tokens, p.head_dim = 104;  // in tiles of 128 as well
  CHECK(choose_attention(p, true).kernel == AttentionKernel::flash);
  p.sequences = 2;
  CHECK(choose_attention(p, true).kernel == AttentionKernel::efficient);
  p.sequences = 1, p.head_dim = 136;  // of 192
  CHECK(choose_attention(p, true).kernel == AttentionKernel::efficient);
}

TEST_CASE("a turn has no more rows than the micro-batch has tokens") {
  const auto most = [](const std::vector<AttentionTurn>& turns, int64_t block) {
    int64_t rows = 0;
    for (const AttentionTurn& turn : turns) rows = std::max(rows, turn.sequences * ((turn.longest + block - 1) / block * block));
    return rows;
  };
  // 2,000 tokens, and 35 times 60.
  std::vector<int32_t> ends{0, 2000};
  for (int i = 1; i <= 35; ++i) ends.push_back(2000 + 60 * i);
  const std::vector<AttentionTurn> turns = attention_turns(ends, 128);
  CHECK(turns.size() == 3);
  CHECK(most(turns, 128) <= 4224);
  int64_t sequences = 0, tokens = 0;
  for (const AttentionTurn& turn : turns) {
    CHECK(turn.first == sequences);
    CHECK(turn.begin == tokens);
    sequences += turn.sequences, tokens += turn.tokens;
  }
  CHECK(sequences == 36);
  CHECK(tokens == 4100);
  // Few rows, one sequence and equal lengths are one turn.
  CHECK(attention_turns({0, 500, 510, 520}, 64).size() == 2);
  CHECK(attention_turns({0, 200, 210, 220}, 64).empty());
  CHECK(attention_turns({0, 4000}, 64).empty());
  CHECK(attention_turns({0, 2048, 4096}, 128).empty());
  CHECK(attention_turns({0}, 64).empty());
}

// The sums as LibTorch's backward allocates them over the hollow GPU, less results: fp32 numbers a
// head and sequence, of which one is d out · out and another lse's a token.
TEST_CASE("the memory of LibTorch's efficient attention is what its backward allocates") {
  struct Row {
    int64_t capability;
    Element type;
    int64_t head_dim, longest;
    int64_t numbers;
  };
  const Row rows[] = {{75, Element::f16, 16, 1024, 66624},     {75, Element::f16, 64, 1024, 66624},
                      {75, Element::f16, 128, 1024, 132160},   {75, Element::f32, 48, 1024, 66624},
                      {75, Element::f32, 104, 1024, 132224},   {80, Element::f32, 104, 1024, 132160},
                      {120, Element::f32, 104, 1024, 132224},  {89, Element::bf16, 104, 1024, 394368},
                      {120, Element::bf16, 96, 1024, 394368},  {90, Element::bf16, 136, 1024, 722016},
                      {75, Element::f16, 320, 1024, 1115296}};
  for (const Row& row : rows) {
    INFO("sm_" << row.capability << " head_dim " << row.head_dim);
    const AttentionShape shape{.type = row.type, .sequences = 1, .heads = 4, .kv_heads = 4, .head_dim = row.head_dim, .tokens = row.longest, .longest = row.longest};
    const int64_t results = 3 * row.longest * 4 * row.head_dim * bytes_of(row.type), lse = 4 * 4 * row.longest;
    const int64_t planned = efficient_attention_bytes(shape, row.capability), seen = 4 * 4 * row.numbers + results + lse;
    CHECK(planned >= seen - 1024);
    CHECK(planned <= (row.numbers > 300000 ? 3 : 1) * seen + 1024);  // keys in fewer parts than may be
  }
}
