// Tests the queue of draws: completions are drawn before they are needed, and each draw goes to its
// event.
#include "core/run/host/draw_queue.h"

#include <atomic>
#include <chrono>

#include "core/learn/reward/score.h"
#include "core/lib/base/error.h"
#include "tests/test.h"

using namespace forge;
using namespace std::chrono_literals;

namespace {

Json event_of(int64_t rollout, const std::string& adapter = "a") {
  return {{"rollout", rollout}, {"split", "train"}, {"adapter", adapter}, {"temperature", 1}, {"stop_ids", {2}}, {"items", {{{"seed", rollout}}}}};
}

const auto kGoOn = [] { return false; };

}  // namespace

TEST_CASE("draws are begun in order, one at a time, and each is taken by its event") {
  DrawQueue queue;
  std::atomic<int> at_once = 0, most = 0, begun = 0;
  for (int64_t rollout = 0; rollout < 4; ++rollout)
    queue.add(event_of(rollout), [&, rollout](const auto&) {
      CHECK(begun++ == rollout);
      most = std::max(most.load(), ++at_once);
      std::this_thread::sleep_for(5ms);
      --at_once;
      return Json{{"items", {rollout}}};
    });
  for (const int64_t rollout : {3, 0, 2, 1}) {
    const std::optional<Json> answer = queue.take(event_of(rollout), kGoOn);
    REQUIRE(answer);
    CHECK(answer->at("items")[0] == rollout);
    CHECK(answer->at("seconds").get<double>() >= 0.004);
    CHECK_FALSE(queue.take(event_of(rollout), kGoOn));
  }
  CHECK(most == 1);
}

TEST_CASE("a draw of other weights or other items is not taken for the one that is wanted") {
  DrawQueue queue;
  queue.add(event_of(1), [](const auto&) { return Json::object(); });
  CHECK_FALSE(queue.take(event_of(1, "b"), kGoOn));
  CHECK_FALSE(queue.take(event_of(2), kGoOn));
  Json other = event_of(1);
  other["items"][0]["seed"] = 7;
  CHECK_FALSE(queue.take(other, kGoOn));
  CHECK(queue.take(event_of(1), kGoOn));
}

TEST_CASE("what a draw throws is thrown to who takes it, and the next one is drawn") {
  DrawQueue queue;
  queue.add(event_of(0), [](const auto&) -> Json { throw Error(ErrorKind::environment, "no server"); });
  queue.add(event_of(1), [](const auto&) { return Json::object(); });
  CHECK(queue.take(event_of(1), kGoOn));
  CHECK(error_of([&] { queue.take(event_of(0), kGoOn); }) == "no server");
}

TEST_CASE("nobody waits for a draw that is stopped, and a queue that goes stops its draws") {
  std::atomic<bool> begun = false, ended = false;
  {
    DrawQueue queue;
    queue.add(event_of(0), [&](const auto& stopped) {
      begun = true;
      while (!stopped()) std::this_thread::sleep_for(1ms);
      ended = true;
      return Json::object();
    });
    queue.add(event_of(1), [](const auto&) -> Json { throw Error(ErrorKind::internal, "begun after the end"); });
    while (!begun) std::this_thread::sleep_for(1ms);
    CHECK_THROWS_AS(queue.take(event_of(0), [] { return true; }), ScoringStopped);
  }
  CHECK(ended);
}
