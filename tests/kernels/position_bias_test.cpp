// Compares T5's buckets of distances with transformers' T5Attention._relative_position_bucket.
#include "kernels/attention/position_bias.h"

#include <ATen/ATen.h>

#include "tests/test.h"

using namespace forge;

namespace {

// The bucket from each of these distances on, up to the next, for all distances from −1,100 to
// 1,100.
struct Golden {
  int64_t buckets, most;
  bool causal;
  std::vector<std::pair<int64_t, int64_t>> from;
};
const Golden kGoldens[] = {
    {32, 128, false, {{-1100, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8}, {-7, 7}, {-6, 6}, {-5, 5}, {
     -4, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}, {1, 17}, {2, 18}, {3, 19}, {4, 20}, {5, 21}, {6, 22}, {7, 23}, {8, 24}, {12, 25}, {
     16, 26}, {23, 27}, {32, 28}, {46, 29}, {64, 30}, {91, 31}}},
    {32, 128, true, {{-1100, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26}, {-58, 25}, {-51, 24}, {-45, 23}, {-39, 22}, {
     -34, 21}, {-30, 20}, {-26, 19}, {-23, 18}, {-20, 17}, {-18, 16}, {-15, 15}, {-14, 14}, {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {
     -9, 9}, {-8, 8}, {-7, 7}, {-6, 6}, {-5, 5}, {-4, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}}},
    {8, 20, false, {{-1100, 3}, {-6, 2}, {-1, 1}, {0, 0}, {1, 5}, {2, 6}, {7, 7}}},
    {8, 20, true, {{-1100, 7}, {-13, 6}, {-8, 5}, {-5, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}}},
    {64, 1000, true, {{-1100, 63}, {-898, 62}, {-806, 61}, {-724, 60}, {-650, 59}, {-584, 58}, {-524, 57}, {-470, 56}, {-422, 55}, {
     -379, 54}, {-341, 53}, {-306, 52}, {-275, 51}, {-247, 50}, {-221, 49}, {-199, 48}, {-178, 47}, {-160, 46}, {-144, 45}, {-129, 44}, {
     -116, 43}, {-104, 42}, {-93, 41}, {-84, 40}, {-75, 39}, {-67, 38}, {-61, 37}, {-54, 36}, {-49, 35}, {-44, 34}, {-39, 33}, {
     -35, 32}, {-31, 31}, {-30, 30}, {-29, 29}, {-28, 28}, {-27, 27}, {-26, 26}, {-25, 25}, {-24, 24}, {-23, 23}, {-22, 22}, {-21, 21}, {
     -20, 20}, {-19, 19}, {-18, 18}, {-17, 17}, {-16, 16}, {-15, 15}, {-14, 14}, {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {-9, 9}, {
     -8, 8}, {-7, 7}, {-6, 6}, {-5, 5}, {-4, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}}},
};

}  // namespace

TEST_CASE("distances fall into the buckets of transformers") {
  for (const Golden& golden : kGoldens) {
    INFO(golden.buckets << " buckets, " << golden.most << ", causal " << golden.causal);
    const at::Tensor got = position_buckets(at::arange(-1100, 1101), golden.buckets, golden.most, golden.causal);
    int64_t wrong = 0;
    size_t run = 0;
    for (int64_t distance = -1100; distance <= 1100; ++distance) {
      if (run + 1 < golden.from.size() && golden.from[run + 1].first == distance) ++run;
      wrong += got[distance + 1100].item<int64_t>() != golden.from[run].second;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a bias by distance has a row of the table for each pair, and new queries stand at the end") {
  const at::Tensor table = at::arange(32, at::kFloat).view({16, 2});
  const at::Tensor whole = position_bias(table, 7, 7, 20, true);
  CHECK(whole.sizes() == at::IntArrayRef{1, 2, 7, 7});
  CHECK(whole[0][1][6][4].item<float>() == 5);  // two back: bucket 2, of head 1
  CHECK(at::equal(position_bias(table, 2, 7, 20, true), whole.narrow(2, 5, 2)));
  const at::Tensor both = position_bias(table, 3, 3, 20, false);
  CHECK(both[0][0][1][2].item<float>() == 18);  // one on: bucket 8 + 1
  CHECK(both[0][0][1][0].item<float>() == 2);
}
