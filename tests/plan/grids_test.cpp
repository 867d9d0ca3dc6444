// Tests the grids of kernels whose blocks are cut for a card: kernels/lora/folded_space.h and
// gated_space.h.
#include "core/plan/machine/gpu_database.h"
#include "kernels/lora/gated_space.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns the gate of a Llama of 8B with LoRA of rank 16: its backward for `tokens` on a card with
// `multiprocessors`.
GatedGradients gate(int64_t multiprocessors, int64_t tokens = 4096) {
  GatedGradients args{.tokens = tokens, .planned = 4096, .multiprocessors = multiprocessors, .width = 14336, .rank = 16};
  args.side[0].rank = args.side[1].rank = 16;
  return args;
}
AdapterSums sums(int64_t multiprocessors, int64_t width) {
  AdapterSums args{.tokens = 4096, .planned = 4096, .multiprocessors = multiprocessors, .width = width, .members = 1};
  args.member[0] = {.out = width, .rank = 16};
  return args;
}
AdapterSumsGradient gradient(int64_t multiprocessors) {
  AdapterSumsGradient args{.tokens = 4096, .planned = 4096, .multiprocessors = multiprocessors, .members = 3};
  args.member[0] = {.out = 4096, .rank = 16}, args.member[1] = args.member[2] = {.out = 1024, .rank = 16};
  return args;
}

template <class Cut>
int64_t blocks(const Cut& cut) {
  return cut.column_blocks * cut.token_blocks;
}

}  // namespace

TEST_CASE("a card has all blocks of a cut grid at once, but where its columns alone are more") {
  for (const GpuCard& card : gpu_cards()) {
    INFO(card.name);
    const int64_t all = card.multiprocessors;
    const GatedCut gated = gated_cut(gate(all));
    CHECK((blocks(gated) <= all || gated.token_blocks == 1));
    // Another block of tokens would not fit.
    CHECK(blocks(gated) + gated.column_blocks > all);
    for (const ThinCut& cut : {thin_cut(sums(all, 4096)), thin_cut(sums(all, 14336)), thin_cut(gradient(all))}) {
      CHECK((blocks(cut) <= 2 * all || cut.token_blocks == 1));
      CHECK(cut.fits);
    }
  }
}

TEST_CASE("a grid is that of the tokens that are planned and of the card, however many tokens come") {
  const GatedCut h100 = gated_cut(gate(132)), again = gated_cut(gate(132, 1000)), rtx4070 = gated_cut(gate(46));
  CHECK(h100.token_blocks == 3);
  CHECK(again.tokens_each == h100.tokens_each);
  CHECK(rtx4070.token_blocks == 1);
  CHECK(rtx4070.numbers < h100.numbers);  // fewer partial sums
  CHECK(blocks(thin_cut(sums(132, 4096))) > blocks(thin_cut(sums(46, 4096))));
}
