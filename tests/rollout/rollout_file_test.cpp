// A rollout in a checkpoint comes back to the bit, and its file gives scores back to the same completions alone.
#include "core/io/members.h"
#include "core/rollout/rollout_metrics.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

std::vector<RewardConfig> rewards() {
  RewardConfig right, brief;
  right.name = "right", brief.name = "brief";
  return {right, brief};
}

Completion scored() {
  Completion c{.prompt = 3, .draw = 5, .place = 1, .group = 0, .sample = 2};
  c.ids = {4, 9, 2};
  c.sampler_logps = {-0.1F, -1.2345678F, -3e-8F};
  c.text_tokens = 2;
  c.text = "ab", c.prompt_text = "?";
  c.parts = {{1.0 / 3, "so"}, {std::nullopt, "cannot say"}};
  c.reward = 1.0 / 3;
  return c;
}

}  // namespace

TEST_CASE("a rollout survives a checkpoint to the bit") {
  Rollout rollout{.number = 7, .drawn = 9};
  rollout.completions = {scored()};
  rollout.completions[0].old_logps = {-0.1F, 1e-30F, -7.25F};
  rollout.completions[0].advantage = 0.1 + 0.2;
  rollout.completions[0].counts = true;
  const Json json = rollout;
  const auto back = parse_json(dump_json(json), "x", ErrorKind::internal).get<Rollout>();
  CHECK(dump_json(Json(back)) == dump_json(json));
  CHECK(back.completions[0].old_logps == rollout.completions[0].old_logps);
  CHECK(back.completions[0].advantage == rollout.completions[0].advantage);
  CHECK(back.completions[0].reward == rollout.completions[0].reward);
  CHECK_FALSE(back.completions[0].parts[1].score);
  Json damaged = json;
  damaged["completions"][0]["ids"] = "none";
  CHECK_THROWS_AS(damaged.get<Rollout>(), MemberFault);
}

TEST_CASE("scores are taken from a file for the same completion, and for no other") {
  const Completion written = scored();
  const Json line = parse_json(dump_json(rollout_line(written, rewards())), "x", ErrorKind::internal);
  const auto empty = [&] {
    Completion c = scored();
    c.parts.clear(), c.reward.reset(), c.text.clear();
    return c;
  };
  Completion same = empty();
  REQUIRE(take_scores(line, rewards(), same));
  CHECK(same.reward == written.reward);
  CHECK(same.parts[0].score == written.parts[0].score);
  CHECK_FALSE(same.parts[1].score);
  CHECK(same.parts[1].reason == "cannot say");
  for (const auto& change : std::vector<std::function<void(Completion&)>>{
           [](Completion& c) { c.ids[1] = 8; }, [](Completion& c) { c.sample = 1; }, [](Completion& c) { c.draw = 4; },
           [](Completion& c) { c.place = 0; }, [](Completion& c) { c.prompt = 2; }}) {
    Completion other = empty();
    change(other);
    CHECK_FALSE(take_scores(line, rewards(), other));
    CHECK(other.parts.empty());
  }
  std::vector<RewardConfig> renamed = rewards();
  renamed[1].name = "short";
  Completion other = empty();
  CHECK_FALSE(take_scores(line, renamed, other));
}

TEST_CASE("what a rollout says of itself") {
  Rollout rollout = rollout_of({{3, 1}, {2, 2}}, {{1, 0}, {2, 1}});
  rollout.completions[1].reward.reset();
  rollout.completions[1].truncated = true;
  const Json facts = rollout_facts(rollout.completions, {});
  CHECK(facts["reward"] == Approx(4.0 / 3));
  CHECK(facts["unscored"] == 1);
  CHECK(facts["truncated_share"] == 0.25);
  CHECK(facts["completion_tokens"]["mean"] == 2);
  CHECK(facts["distinct_2"] == Approx(0.25));  // of four pairs all are (7, 7)
}
