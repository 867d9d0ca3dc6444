// Fuzzes answers of servers: a completion that was drawn elsewhere, and a score.
#include <cmath>

#include "core/learn/reward/http_reward.h"
#include "core/lib/net/completion_server.h"
#include "tests/fuzz/target.h"

using namespace forge;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(text_of(data, size));
  read_or_refuse([&] {
    DrawnCompletion drawn;
    const std::string fault = completion_fault(body, {.prompt = {1, 2}, .max_tokens = 4, .seed = 1},
                                               {.adapter = "a", .temperature = 1, .stop_ids = {7}, .vocab_size = 100}, drawn);
    if (!fault.empty()) return;
    FORGE_CHECK(drawn.ids.size() == drawn.logps.size() && !drawn.ids.empty() && drawn.ids.size() <= 4, "a fault was missed");
    for (const float logp : drawn.logps) FORGE_CHECK(std::isfinite(logp), "a log-probability is not finite");
  });
  read_or_refuse([&] {
    HttpReward reward;
    reward.url = "http://localhost/score";
    reward.field = "result.score";
    const Score score = score_of(reward, {.status = 200, .headers = {}, .body = body, .failure = {}});
    FORGE_CHECK(!score.value || std::isfinite(*score.value), "a score is not finite");
  });
  return 0;
}
