#include <cmath>

#include "cli/bench_points.h"
#include "tests/test.h"

using namespace forge;

namespace {

BenchResult at(double rate, std::string refused = "") {
  BenchResult result;
  if (refused.empty()) result.rates = {rate};
  result.refused = std::move(refused);
  return result;
}

}  // namespace

TEST_CASE("the knee is the smallest micro-batch within 3 % of the fastest") {
  CHECK(knee({at(100), at(190), at(297), at(300), at(0, "does not fit")}) == 2);
  CHECK(knee({at(100), at(190), at(290), at(300)}) == 3);
  CHECK(knee({at(300), at(200)}) == 0);
}

TEST_CASE("a sweep ends when two doublings together gain less than 3 %") {
  CHECK(!past_knee({at(100), at(100)}));
  CHECK(past_knee({at(100), at(102), at(101)}));
  CHECK(!past_knee({at(100), at(102), at(104)}));
  CHECK(!past_knee({at(100), at(98), at(120)}));
  CHECK(past_knee({at(50), at(100), at(101), at(102)}));
}

TEST_CASE("a rate is the median of its steps, and its spread that of the middle half") {
  BenchResult result;
  CHECK(result.tokens_per_second() == 0);
  CHECK(result.spread() == 0);
  result.rates = {10, 100, 104, 96, 1000};
  CHECK(result.tokens_per_second() == 100);
  CHECK(std::abs(result.spread() - 0.08) < 1e-12);
}

TEST_CASE("shares of a step add up, beside the rate of the quickest product") {
  const OpShares shares{.ops = {{"linear", 3, 6e11}, {"norm", 1, 0}}, .seconds = 4, .best_product_rate = 4e11};
  CHECK(std::abs(shares.roofline_share() - 6e11 / 4e11 / 4) < 1e-12);
  const std::string table = shares_table(shares);
  INFO(table);
  CHECK(table.find("linear  75.0 %   200                50 %") != std::string::npos);
  CHECK(table.find("all     100.0 %  150                38 %") != std::string::npos);
  CHECK(table.find("at 400 GFLOP/s, the quickest product alone, the products of a step would take 38 % of its time") != std::string::npos);
  CHECK(table.find("measured: by the host's clock, around each op\n") != std::string::npos);
  OpShares gpu = shares;
  gpu.on_device = true, gpu.tokens = 4000, gpu.ops[1].bytes = 5e12;
  CHECK(shares_table(gpu).find("in steps without graphs; 1,000 tokens/s so\n") != std::string::npos);
  const std::string on_gpu = shares_table(gpu);
  const size_t norm = on_gpu.find("norm    25.0 %");
  REQUIRE(norm != std::string::npos);
  CHECK_THAT(on_gpu.substr(norm, on_gpu.find('\n', norm) - norm), Catch::EndsWith(" 5,000"));
  CHECK(OpShares().roofline_share() == 0);
}

TEST_CASE("each rung of the ladder has one plain setting less, and the last is the job") {
  const std::vector<BenchPoint> rungs = ladder();
  REQUIRE(rungs.size() > 3);
  for (size_t i = 1; i < rungs.size(); ++i) {
    const std::vector<std::string>&more = rungs[i - 1].sets, &fewer = rungs[i].sets;
    REQUIRE(fewer.size() < more.size());
    CHECK(std::vector<std::string>(more.end() - static_cast<int64_t>(fewer.size()), more.end()) == fewer);
  }
  CHECK(rungs.back().sets.empty());
}
