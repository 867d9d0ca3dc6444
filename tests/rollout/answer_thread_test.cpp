// Tests the thread that computes answers for the engine while the event loop waits.
#include "core/run/host/answer_thread.h"

#include <poll.h>

#include <chrono>

#include "core/learn/reward/score.h"
#include "core/lib/base/error.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Waits for the next answer like the event loop.
Json next_line(AnswerThread& answers) {
  for (int turns = 0; turns < 1000; ++turns) {
    if (const std::optional<Json> line = answers.next()) return *line;
    pollfd wait{answers.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 100);
  }
  return nullptr;
}

}  // namespace

TEST_CASE("the engine may ask again as soon as it has an answer") {
  AnswerThread answers;
  for (int i = 0; i < 3000; ++i) {
    answers.begin([i](const AnswerPort&) { return Json(i); });
    REQUIRE(next_line(answers) == i);
  }
}

TEST_CASE("work asks the engine before it answers") {
  AnswerThread answers;
  for (int i = 0; i < 300; ++i) {
    answers.begin([](const AnswerPort& engine) { return Json(engine.ask("how many?").get<int>() + 1); });
    REQUIRE(next_line(answers) == "how many?");
    answers.hear(i);
    REQUIRE(next_line(answers) == i + 1);
  }
}

TEST_CASE("what work throws is thrown to who waits, and the next work is done") {
  AnswerThread answers;
  answers.begin([](const AnswerPort&) -> Json { throw Error(ErrorKind::data, "no judge"); });
  CHECK(error_of([&] { next_line(answers); }) == "no judge");
  answers.begin([](const AnswerPort&) { return Json(1); });
  CHECK(next_line(answers) == 1);
}

TEST_CASE("work that nobody waits for ends, whether it thinks or asks") {
  AnswerThread answers;
  for (const bool asks : {false, true}) {
    answers.begin([asks](const AnswerPort& engine) -> Json {
      if (asks) return engine.ask("anybody?");
      while (!engine.stopped()) {
      }
      throw ScoringStopped{};
    });
    if (asks) CHECK(next_line(answers) == "anybody?");
    answers.cancel();
    CHECK_FALSE(answers.next());
    answers.begin([](const AnswerPort&) { return Json("after"); });
    CHECK(next_line(answers) == "after");
  }
}
